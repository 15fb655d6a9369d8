// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstring>
#include <ctime>

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/read_file.h"
#include "lockstep/storage/credential_sources.h"
#include "lockstep/storage/store.h"
#include "lockstep/storage/xml.h"

namespace lockstep::storage {
namespace {

using namespace std::chrono_literals;

std::string read_small_file(const std::string& path, const std::string& what) {
  auto [text, error] = read_file(path);
  if (error != 0 || text.empty())
    fail<StorageError>("cannot read {} in {}: {}", what, path,
                       error != 0 ? std::strerror(error) : "it is empty");
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

/// Repeats the request until there is an answer that is not a temporary failure. `request.url` names the
/// service in the StorageError if there is none.
HttpAnswer ask(const CredentialPlaces& places, const HttpRequest& request, const std::string& source) {
  const Cancellation never;
  for (int tried = 1;; ++tried) {
    HttpAnswer answer = places.http->send(request);
    const bool passing = answer.failure.empty()
                             ? answer.status >= 500 || answer.status == 429 ||
                                   answer.body.find("IDPCommunicationError") != std::string::npos
                             : answer.may_pass;
    if (answer.failure.empty() && !passing) return answer;
    if (!passing || tried >= places.retries.tries) {
      fail<StorageError>(
          "{}: {} does not give credentials: {} (tried {} times)", source, request.url,
          answer.failure.empty() ? fmt::format("HTTP status {}", answer.status) : answer.failure, tried);
    }
    never.wait_for(places.retries.wait_after(tried));
  }
}

std::string short_text(const std::string& body) { return body.substr(0, 300); }

/// An Action of STS; signed if there are credentials.
Credentials ask_sts(const CredentialPlaces& places, const Query& action, const Credentials* by,
                    const std::string& source) {
  const Environment& environment = *places.environment;
  std::string region = aws_variable(environment, "AWS_REGION").value_or("");
  if (region.empty()) region = aws_variable(environment, "AWS_DEFAULT_REGION").value_or("");
  if (region.empty()) region = places.config->get(places.config->profile(), "region").value_or("");
  std::string endpoint = aws_variable(environment, "AWS_ENDPOINT_URL_STS").value_or("");
  if (endpoint.empty()) endpoint = aws_variable(environment, "AWS_ENDPOINT_URL").value_or("");
  if (endpoint.empty()) endpoint = places.config->endpoint_of("sts").value_or("");
  if (endpoint.empty()) {
    endpoint = region.empty() ? "https://sts.amazonaws.com"
                              : fmt::format("https://sts.{}.amazonaws.com{}", region,
                                            region.starts_with("cn-") ? ".cn" : "");
  }
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const std::string body = query_string(action);
  HttpRequest request{.method = "POST",
                      .url = endpoint + "/",
                      .headers = {{"content-type", "application/x-www-form-urlencoded"}},
                      .body = std::as_bytes(std::span(body)),
                      .connect_timeout = 5s,
                      .whole_timeout = 30s};
  if (by != nullptr) {
    const auto host_at = endpoint.find("://") + 3;
    const auto path_at = std::min(endpoint.find('/', host_at), endpoint.size());
    RequestToSign to_sign{"POST", endpoint.substr(path_at) + "/", {}, request.headers, sha256_hex(body)};
    to_sign.headers.emplace_back("host", endpoint.substr(host_at, path_at - host_at));
    for (auto& header :
         signature_headers(to_sign, by->keys, {region.empty() ? "us-east-1" : region, "sts", places.now()})) {
      request.headers.push_back(std::move(header));
    }
  }
  const HttpAnswer answer = ask(places, request, source);
  const bool xml = answer.body.find('<') != std::string::npos;
  const XmlElement root = xml ? parse_xml(answer.body) : XmlElement{};
  if (answer.status != 200) {
    const XmlElement* error = root.find("Error");
    fail<StorageError>("{}: {} refuses {}: HTTP status {}, {}", source, endpoint, action.front().second,
                       answer.status,
                       error == nullptr ? short_text(answer.body)
                                        : error->text_of("Code") + ": " + error->text_of("Message"));
  }
  const XmlElement* found = root.find("Credentials");
  Credentials credentials;
  if (found != nullptr) {
    credentials.keys = {found->text_of("AccessKeyId"), found->text_of("SecretAccessKey"),
                        found->text_of("SessionToken")};
  }
  if (credentials.keys.access_key_id.empty() || credentials.keys.secret_access_key.empty())
    fail<StorageError>("{}: the answer of {} has no credentials", source, endpoint);
  credentials.source = source;
  credentials.expires = parse_time(found->text_of("Expiration"));
  return credentials;
}

/// Whether credentials may be requested from this URL: over TLS, or from a local server.
bool is_safe(const std::string& url, const std::string& container_server) {
  if (url.starts_with("https://") || url.starts_with(container_server + "/")) return true;
  if (!url.starts_with("http://")) return false;
  const std::string rest = url.substr(7);
  std::string host = rest.substr(0, rest.find_first_of("/?"));
  if (host.find('@') != host.npos) return false;
  host = host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]" || host == "169.254.170.2" ||
         host == "169.254.170.23" || host == "[fd00:ec2::23]";
}

}  // namespace

std::chrono::system_clock::time_point parse_time(const std::string& text) {
  std::tm parts{};
  const char* rest = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) fail<StorageError>("\"{}\" is not the time at which credentials expire", text);
  if (*rest == '.') rest += 1 + std::strspn(rest + 1, "0123456789");
  std::time_t offset = 0;
  int hours = 0, minutes = 0;
  char sign = 0;
  if (std::sscanf(rest, "%c%2d:%2d", &sign, &hours, &minutes) == 3 && (sign == '+' || sign == '-')) {
    offset = (hours * 60 + minutes) * 60 * (sign == '-' ? -1 : 1);
  } else if (std::string_view(rest) != "Z") {
    fail<StorageError>("\"{}\" is not the time at which credentials expire", text);
  }
  return std::chrono::system_clock::from_time_t(timegm(&parts) - offset);
}

Credentials credentials_of_json(std::string_view json, const char* token, const std::string& source) {
  const auto parsed = try_parse_json(json);
  auto text = [&](const char* name) -> std::string {
    const auto it = parsed.is_object() ? parsed.find(name) : parsed.end();
    return parsed.is_object() && it != parsed.end() && it->is_string() ? it->get<std::string>() : "";
  };
  Credentials credentials{{text("AccessKeyId"), text("SecretAccessKey"), text(token)}, source, std::nullopt};
  if (credentials.keys.access_key_id.empty() || credentials.keys.secret_access_key.empty()) {
    fail<StorageError>("{}: its answer is not JSON with AccessKeyId and SecretAccessKey{}", source,
                       text("Message").empty() ? "" : ": " + text("Message"));
  }
  if (const std::string time = text("Expiration"); !time.empty()) credentials.expires = parse_time(time);
  return credentials;
}

Credentials assume_role_with_web_identity(const CredentialPlaces& places, const std::string& role,
                                          const std::string& token_file, const std::string& session,
                                          const std::string& source) {
  return ask_sts(places,
                 {{"Action", "AssumeRoleWithWebIdentity"},
                  {"Version", "2011-06-15"},
                  {"RoleArn", role},
                  {"RoleSessionName", session},
                  {"WebIdentityToken", read_small_file(token_file, "the web identity's token")}},
                 nullptr, source);
}

Credentials assume_role(const CredentialPlaces& places, const Credentials& by, const std::string& role,
                        const std::string& session, const std::string& external_id,
                        const std::string& source) {
  Query action = {
      {"Action", "AssumeRole"}, {"Version", "2011-06-15"}, {"RoleArn", role}, {"RoleSessionName", session}};
  if (!external_id.empty()) action.emplace_back("ExternalId", external_id);
  return ask_sts(places, action, &by, source);
}

std::optional<Credentials> credentials_of_web_identity(const CredentialPlaces& places) {
  const auto file = aws_variable(*places.environment, "AWS_WEB_IDENTITY_TOKEN_FILE");
  const auto role = aws_variable(*places.environment, "AWS_ROLE_ARN");
  if (!file) return std::nullopt;
  if (!role)
    fail<StorageError>("AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not; set both, or none");
  return assume_role_with_web_identity(
      places, *role, *file, aws_variable(*places.environment, "AWS_ROLE_SESSION_NAME").value_or("lockstep"),
      "the web identity of AWS_WEB_IDENTITY_TOKEN_FILE");
}

std::optional<Credentials> credentials_of_container(const CredentialPlaces& places) {
  const Environment& environment = *places.environment;
  const auto relative = aws_variable(environment, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const auto full = aws_variable(environment, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!relative && !full) return std::nullopt;
  const std::string source = "the container's service";
  HttpRequest request{.url = relative ? places.container_server + *relative : *full,
                      .connect_timeout = 2s,
                      .whole_timeout = 10s,
                      .proxies = false};
  if (!is_safe(request.url, places.container_server)) {
    fail<StorageError>(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI is {}: expected an address with https, or one of this machine",
        request.url);
  }
  auto token = aws_variable(environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const auto file = aws_variable(environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"))
    token = read_small_file(*file, "the container's token");
  if (token && token->find_first_of("\r\n") != token->npos)
    fail<StorageError>("the container's token has several lines, expected one");
  if (token) request.headers.emplace_back("authorization", *token);
  const HttpAnswer answer = ask(places, request, source);
  if (answer.status != 200) {
    fail<StorageError>("{}: {} answers with HTTP status {}: {}", source, request.url, answer.status,
                       short_text(answer.body));
  }
  return credentials_of_json(answer.body, "Token", source);
}

std::optional<Credentials> credentials_of_instance(const CredentialPlaces& places, std::string& why_not) {
  const Environment& environment = *places.environment;
  if (aws_variable(environment, "AWS_EC2_METADATA_DISABLED").value_or("") == "true") {
    why_not = "it is switched off by AWS_EC2_METADATA_DISABLED";
    return std::nullopt;
  }
  const bool ipv6 =
      aws_variable(environment, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE").value_or("") == "IPv6";
  std::string server = aws_variable(environment, "AWS_EC2_METADATA_SERVICE_ENDPOINT")
                           .value_or(ipv6 ? "http://[fd00:ec2::254]" : "http://169.254.169.254");
  while (server.ends_with('/')) server.pop_back();
  const std::string source = "the role of this machine",
                    roles = "/latest/meta-data/iam/security-credentials/";
  HttpRequest request{.method = "PUT",
                      .url = server + "/latest/api/token",
                      .headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}},
                      .connect_timeout = 1s,
                      .whole_timeout = 5s,
                      .proxies = false};
  HttpAnswer answer = places.http->send(request);
  if (!answer.failure.empty() || answer.status != 200) {
    why_not = fmt::format("{} {}", server,
                          answer.failure.empty() ? fmt::format("answers with HTTP status {}", answer.status)
                                                 : "cannot be asked: " + answer.failure);
    return std::nullopt;
  }
  request.method = "GET";
  request.headers = {{"x-aws-ec2-metadata-token", answer.body}};
  request.url = server + roles;
  answer = ask(places, request, source);
  const std::string role = answer.body.substr(0, answer.body.find('\n'));
  if (answer.status != 200 || role.empty()) {
    why_not = fmt::format("{} knows no role of this machine (HTTP status {})", server, answer.status);
    return std::nullopt;
  }
  request.url += uri_encode(role);
  answer = ask(places, request, source);
  if (answer.status != 200)
    fail<StorageError>("{}: {} answers with HTTP status {}", source, request.url, answer.status);
  return credentials_of_json(answer.body, "Token", fmt::format("the role {} of this machine", role));
}

}  // namespace lockstep::storage
