// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/tls/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/coordination/tls/certificates.h"
#include "lockstep/testing/certificates.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::coordination {
namespace {

using std::chrono::hours;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::TestAuthority;

class CertificatesTest : public ::testing::Test {
 protected:
  std::string why_refused(const TlsFiles& files) const {
    try {
      Tls::load(files);
    } catch (const InitializationError& error) {
      return error.what();
    }
    return "";
  }

  TlsFiles with(std::string TlsFiles::*file, const std::string& path) const {
    TlsFiles files = good_;
    files.*file = path;
    return files;
  }

  std::string file(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_.path() / name;
    std::ofstream(path) << text;
    return path.string();
  }

  const TemporaryFolder folder_;
  const TestAuthority ours_{folder_.path(), "ours"}, foreign_{folder_.path(), "foreign"};
  const TlsFiles good_ = ours_.issue({});
};

TEST_F(CertificatesTest, ValidOnes_AreAccepted) {
  EXPECT_EQ(why_refused(good_), "");
  EXPECT_EQ(why_refused(ours_.issue({.name = "for-servers", .usage = "serverAuth"})), "");
  const Certificates pem = read_certificates(good_);
  EXPECT_THAT(pem.certificate, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_THAT(pem.key, HasSubstr("PRIVATE KEY"));
}

TEST_F(CertificatesTest, InvalidOnes_AreRefusedWithTheirFileAndThisProcess) {
  const TlsFiles expired = ours_.issue({.name = "expired", .from = hours(-48), .until = hours(-1)});
  const TlsFiles early = ours_.issue({.name = "early", .from = hours(1), .until = hours(48)});
  const TlsFiles other = ours_.issue({.name = "other"});
  const TlsFiles strange = foreign_.issue({});
  const std::string none = folder_.path() / "none", empty = file("empty", ""), text = file("text", "no PEM");
  const std::string cut = file("cut.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
  using Files = TlsFiles;
  struct Case {
    TlsFiles files;
    std::string file, what;
  };
  for (const Case& each : std::vector<Case>{
           {with(&Files::certificate, ""), "LOCKSTEP_TLS_CERTIFICATE", "the certificate is not given"},
           {with(&Files::key, ""), "LOCKSTEP_TLS_KEY", "the key is not given"},
           {with(&Files::authority, ""), "LOCKSTEP_TLS_AUTHORITY",
            "the authority's certificate is not given"},
           {with(&Files::certificate, none), none, "No such file"},
           {with(&Files::key, none), none, "No such file"},
           {with(&Files::authority, none), none, "No such file"},
           {with(&Files::certificate, folder_.path()), folder_.path(), "cannot be read from"},
           {with(&Files::certificate, empty), empty, "it is empty"},
           {with(&Files::certificate, text), text, "holds no certificate in PEM"},
           {with(&Files::certificate, cut), cut, "holds no certificate in PEM"},
           {with(&Files::certificate, good_.key), good_.key, "holds no certificate in PEM"},
           {with(&Files::key, text), text, "holds no private key"},
           {with(&Files::key, good_.certificate), good_.certificate, "holds no private key"},
           {with(&Files::key, other.key), other.key, "is not that of the certificate"},
           {with(&Files::authority, text), text, "holds no certificate of an authority"},
           {with(&Files::authority, strange.authority), good_.certificate, "is not signed by an authority"},
           {with(&Files::authority, strange.authority), strange.authority, "is not signed by an authority"},
           {expired, expired.certificate, "has expired: it was valid until"},
           {early, early.certificate, "is not valid before"},
       }) {
    EXPECT_THAT(why_refused(each.files),
                AllOf(HasSubstr(each.file), HasSubstr(each.what),
                      HasSubstr("this is the process" + Whereabouts::own().to_string())));
  }
}

/// Two ends, and what goes between them.
struct Ends {
  Ends(const TlsFiles& connects, const TlsFiles& accepts)
      : ours(Tls::load(connects)),
        theirs(Tls::load(accepts)),
        here(ours->connect()),
        there(theirs->accept()) {}

  /// Hands over what both have to send, in pieces, until there is nothing more. Gives all bytes that went.
  std::string carry(std::size_t piece = 1 << 20) {
    std::string all;
    for (bool moved = true; moved;) {
      moved = false;
      for (auto [from, to] : {std::pair(here.get(), there.get()), std::pair(there.get(), here.get())}) {
        const std::string bytes = from->to_send();
        for (std::size_t at = 0; at < bytes.size(); at += piece) to->receive(bytes.substr(at, piece));
        moved = moved || !bytes.empty();
        all += bytes;
      }
    }
    return all;
  }

  std::shared_ptr<const Tls> ours, theirs;
  std::unique_ptr<TlsSession> here, there;
};

TEST_F(CertificatesTest, TwoOfOneAuthority_ExchangeEncryptedData) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20}) {
    Ends ends(good_, ours_.issue({.name = "there", .usage = "serverAuth"}));
    EXPECT_FALSE(ends.here->is_open());
    ends.here->write("lost");
    ends.carry(piece);
    ASSERT_TRUE(ends.here->is_open() && ends.there->is_open())
        << ends.here->trouble() << ends.there->trouble();
    EXPECT_EQ(ends.here->binding(), ends.there->binding());
    EXPECT_EQ(ends.here->binding().size(), 32u);
    const std::string said(100'000, 'x');
    ends.here->write(said);
    ends.there->write("the answer");
    const std::string seen = ends.carry(piece);
    EXPECT_EQ(ends.there->read(), said);
    EXPECT_EQ(ends.here->read(), "the answer");
    EXPECT_EQ(seen.find("the answer"), std::string::npos);
    EXPECT_EQ(seen.find("xxxxxxxx"), std::string::npos);
    EXPECT_FALSE(ends.here->is_over() || ends.there->is_over());
  }
  EXPECT_NE(
      [&] {
        Ends ends(good_, good_);
        ends.carry();
        return ends.here->binding();
      }(),
      [&] {
        Ends ends(good_, good_);
        ends.carry();
        return ends.here->binding();
      }());
}

TEST_F(CertificatesTest, CertificatesOfAnotherAuthority_AreRefusedByBothSidesWithReasons) {
  const TlsFiles strange = foreign_.issue({});
  Ends ends(good_, strange);
  ends.carry();
  EXPECT_TRUE(ends.here->is_over() && ends.there->is_over());
  EXPECT_THAT(ends.here->trouble(),
              AllOf(HasSubstr("the other side's certificate (CN = "),
                    HasSubstr("is not accepted by the authority in '" + good_.authority)));
  EXPECT_THAT(ends.there->trouble(), AllOf(HasSubstr("does not accept this process's certificate in '"),
                                           HasSubstr(strange.certificate), HasSubstr("unknown CA")));
  // Only one of them does not trust the other.
  TlsFiles credulous = foreign_.issue({});
  std::ofstream(credulous.authority, std::ios::app) << std::ifstream(good_.authority).rdbuf();
  Ends half(credulous, good_);
  half.carry();
  EXPECT_THAT(half.there->trouble(), HasSubstr("is not accepted by the authority in '" + good_.authority));
  EXPECT_THAT(half.here->trouble(), HasSubstr("does not accept this process's certificate in '"));
}

TEST_F(CertificatesTest, OnesThatExpireWhileAProcessRuns_AreRefusedByTheOthers) {
  const TlsFiles expires = ours_.issue({.name = "expires", .until = std::chrono::seconds(2)});
  Ends connects(expires, good_), accepts(good_, expires);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  connects.carry();
  accepts.carry();
  for (const auto& [owner, other] : {std::pair(connects.here.get(), connects.there.get()),
                                     std::pair(accepts.there.get(), accepts.here.get())}) {
    EXPECT_THAT(other->trouble(),
                AllOf(HasSubstr("the other side's certificate (CN = expires) is not accepted"),
                      HasSubstr("it has expired: it was valid until")));
    EXPECT_THAT(owner->trouble(), AllOf(HasSubstr(expires.certificate), HasSubstr("certificate expired")));
  }
}

TEST_F(CertificatesTest, APeerThatSpeaksNoTls_IsDetectedByItsFirstBytes) {
  for (const std::string& bytes : std::vector<std::string>{
           "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", std::string("\x20\0\0\0", 4) + std::string(32, 'a'),
           "GET / HTTP/1.1\r\nHost: coordinator\r\n\r\n"}) {
    for (const bool accepts : {false, true}) {
      const auto tls = Tls::load(good_);
      const auto session = accepts ? tls->accept() : tls->connect();
      session->receive(bytes);
      EXPECT_TRUE(session->is_over());
      EXPECT_THAT(session->trouble(), HasSubstr("does not speak TLS 1.3")) << bytes;
    }
  }
}

TEST_F(CertificatesTest, DamagedBytes_EndTheConnection) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Ends ends(good_, good_);
    const bool opened = round % 2 == 0;
    if (opened) {
      ends.carry();
      ends.here->write("something to say");
    }
    std::string bytes = ends.here->to_send();
    // The version in a record's header is not looked at in TLS 1.3.
    std::size_t at = random() % bytes.size();
    if (at == 1 || at == 2) at = 0;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 + random() % 255));
    ends.there->receive(bytes);
    if (opened) {
      EXPECT_EQ(ends.there->read(), "");
      EXPECT_EQ(ends.there->is_over(), !ends.there->trouble().empty());
    } else {
      ends.carry();
      EXPECT_FALSE(ends.here->is_open() && ends.there->is_open() &&
                   ends.here->binding() != ends.there->binding());
    }
  }
}

}  // namespace
}  // namespace lockstep::coordination
