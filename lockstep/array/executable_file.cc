// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/executable_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "executable.pb.h"
#include "lockstep/array/lowered_computation.h"
#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "lockstep/lapack/lapack.h"
#include "lockstep/onednn/onednn.h"
#include "lockstep/runtime/compile.h"
#include "lockstep/runtime/ffi_targets.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/sleef/sleef.h"

namespace lockstep::internal {
namespace {

namespace proto = lockstep::executable;

/// The beginning of a file; then a digest of the rest, and the rest: a proto::Executable.
constexpr std::string_view kMagic = "lockstep executable 1\n";
constexpr std::string_view kMagicOfAnyVersion = "lockstep executable ";
constexpr std::size_t kDigest = 32;

/// Texts of call sites live as long as the process.
const char* kept(const std::string& text) {
  static std::mutex mutex;
  static auto& all = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return all.insert(text).first->c_str();
}

CallSite site_of(const proto::Site& site) { return {kept(site.file()), site.line(), kept(site.function())}; }

void write(const CallSite& site, proto::Site& out) {
  out.set_file(site.file);
  out.set_line(site.line);
  out.set_function(site.function);
}

DType dtype_of(const std::string& name) {
  const std::optional<DType> dtype = dtype_named(name);
  if (!dtype)
    fail("[load_executable] the file has the dtype {}, which this version of Lockstep does not know", name);
  return *dtype;
}

/// The first line that differs, of two texts.
std::string first_difference(const std::string& a, const std::string& b) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i)
    if (a[i] == '\n') begin = i + 1;
  const auto line = [&](const std::string& text) {
    return begin >= text.size() ? std::string("nothing") : text.substr(begin, text.find('\n', begin) - begin);
  };
  return fmt::format("\"{}\" there, \"{}\" here", line(a), line(b));
}

/// What is written to a file, or read from it.
class ExecutableFile {
 public:
  // Writing.

  /// A program over one device that nobody has chosen is for the first device of whoever loads it.
  static bool is_anywhere(const LoweredComputation& lowered) {
    return lowered.mesh->size() == 1 &&
           std::ranges::none_of(lowered.inputs, [](const auto& type) { return type->committed; }) &&
           std::ranges::none_of(lowered.outputs, [](const auto& type) { return type->committed; });
  }

  void write_type(const ArrayType& type, proto::ArrayType& out) {
    out.set_dtype(std::string(name(type.aval.dtype)));
    for (const std::int64_t size : type.aval.shape) out.add_shape(size);
    out.set_weak_type(type.aval.weak_type);
    out.set_committed(type.committed);
    if (!type.committed) return;
    out.set_single_device(type.sharding.is_single_device());
    out.set_mesh(number_of(type.sharding.mesh()));
    for (const std::vector<std::string>& axes : type.sharding.spec().entries()) {
      proto::Axes& entry = *out.add_spec();
      for (const std::string& axis : axes) entry.add_names(axis);
    }
  }

  std::string write(const Computation& computation, const CallDescription& call) {
    const LoweredComputation& lowered = computation.lowered();
    const std::string code = computation.machine_code();
    const runtime::CodeIdentity identity = runtime::code_identity();
    file_.set_platform(identity.platform);
    file_.set_plugin(identity.plugin);
    file_.set_machine(identity.machine);
    file_.set_devices(
        fmt::format("{} of {}", lowered.mesh->size(), lowered.mesh->devices().front().device_kind()));
    write_program(lowered);
    for (const std::vector<std::string>& argument : call.arguments) {
      proto::Argument& out = *file_.add_arguments();
      for (const std::string& text : argument) out.add_texts(text);
    }
    for (const std::string& path : call.results) file_.add_results(path);
    file_.set_code(code);
    const std::string rest = file_.SerializeAsString();
    return std::string(kMagic) + digest(rest) + rest;
  }

  // Reading.

  LoadedExecutable read(std::string_view bytes) {
    parse(bytes);
    check_place();
    try {
      return read_program();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      fail_forged(error.what());
    }
  }

 private:
  /// The digest is right, so it was not damaged on its way.
  [[noreturn]] void fail_forged(std::string_view why) const {
    fail(
        "[load_executable] the file of {} has contents that serialize() does not write: {}; serialize it "
        "again",
        file_.program().name(), why);
  }

  LoadedExecutable read_program() {
    LoweredComputation lowered;
    const proto::Program& program = file_.program();
    for (const proto::Mesh& mesh : program.meshes()) meshes_.push_back(read_mesh(mesh));
    lowered.mesh.emplace(meshes_.front());
    lowered.name = program.name();
    lowered.signature = program.signature();
    lowered.text = {program.traced(), program.partitioned(), program.stablehlo(), {}};
    for (const proto::Communication& line : program.communication()) {
      lowered.text.collectives.push_back({line.equation(),
                                          line.kind(),
                                          {line.axes().begin(), line.axes().end()},
                                          line.num_devices(),
                                          line.bytes(),
                                          site_of(line.site()),
                                          line.has_times() ? std::optional(line.times()) : std::nullopt,
                                          line.reason()});
    }
    lowered.counted = {program.flops(), program.bytes_accessed()};
    lowered.fingerprint = program.fingerprint();
    lowered.takes_position = program.takes_position();
    lowered.traits = {program.transposes(), program.loops(), program.running(), program.padding(),
                      program.fft()};
    lowered.native_collectives = program.native_collectives();
    for (const proto::Collective& each : program.collectives())
      lowered.collectives.push_back(read_collective(each));
    lowered.ffi_targets.assign(program.ffi_targets().begin(), program.ffi_targets().end());
    for (const proto::Input& input : program.inputs()) {
      lowered.inputs.push_back(read_type(input.type()));
      lowered.moved.emplace_back();
      // An array that is not committed may be elsewhere than in the process that compiled.
      if (input.has_moved()) {
        const ArrayTypeRef there = read_type(input.moved());
        if (!(there->sharding == lowered.inputs.back()->sharding)) lowered.moved.back() = there;
      }
      lowered.donated.push_back(input.donated());
    }
    for (const proto::ArrayType& output : program.outputs()) lowered.outputs.push_back(read_type(output));
    LoadedExecutable loaded{Computation::load(std::move(lowered), file_.code()), {}};
    for (const proto::Argument& argument : file_.arguments())
      loaded.call.arguments.emplace_back(argument.texts().begin(), argument.texts().end());
    loaded.call.results.assign(file_.results().begin(), file_.results().end());
    return loaded;
  }

  std::uint32_t number_of(const Mesh& mesh) {
    const auto it = std::ranges::find(meshes_, mesh);
    if (it != meshes_.end()) return static_cast<std::uint32_t>(it - meshes_.begin());
    meshes_.push_back(mesh);
    proto::Mesh& out = *file_.mutable_program()->add_meshes();
    for (const Device device : mesh.devices()) out.add_devices(device.id());
    for (const std::int64_t size : mesh.shape()) out.add_shape(size);
    for (const std::string& axis : mesh.axis_names()) out.add_axes(axis);
    return static_cast<std::uint32_t>(meshes_.size() - 1);
  }

  void write_program(const LoweredComputation& lowered) {
    proto::Program& out = *file_.mutable_program();
    out.set_name(lowered.name);
    out.set_signature(lowered.signature);
    out.set_traced(lowered.text.program);
    out.set_partitioned(lowered.text.partitioned);
    out.set_stablehlo(lowered.text.stablehlo);
    out.set_fingerprint(lowered.fingerprint);
    out.set_takes_position(lowered.takes_position);
    out.set_transposes(lowered.traits.transposes);
    out.set_loops(lowered.traits.loops);
    out.set_running(lowered.traits.running);
    out.set_padding(lowered.traits.padding);
    out.set_fft(lowered.traits.fft);
    out.set_native_collectives(lowered.native_collectives);
    if (is_anywhere(lowered)) {
      meshes_.push_back(*lowered.mesh);
      out.add_meshes();
    } else {
      number_of(*lowered.mesh);
    }
    for (std::size_t i = 0; i < lowered.inputs.size(); ++i) {
      proto::Input& input = *out.add_inputs();
      write_type(*lowered.inputs[i], *input.mutable_type());
      // One that is not committed goes to the program's devices wherever it is.
      if (lowered.moved[i] != nullptr)
        write_type(*lowered.moved[i], *input.mutable_moved());
      else if (!lowered.inputs[i]->committed && !is_anywhere(lowered))
        write_type(*intern(lowered.inputs[i]->aval, lowered.inputs[i]->sharding, true),
                   *input.mutable_moved());
      input.set_donated(lowered.donated[i]);
    }
    for (const ArrayTypeRef& output : lowered.outputs) write_type(*output, *out.add_outputs());
    for (const collectives::Collective& each : lowered.collectives)
      write_collective(each, *out.add_collectives());
    for (const sharding::CommunicationLine& line : lowered.text.collectives) {
      proto::Communication& each = *out.add_communication();
      each.set_equation(line.equation);
      each.set_kind(line.kind);
      for (const std::string& axis : line.axes) each.add_axes(axis);
      each.set_num_devices(line.num_devices);
      each.set_bytes(line.bytes);
      lockstep::internal::write(line.site, *each.mutable_site());
      if (line.times) each.set_times(*line.times);
      each.set_reason(line.reason);
    }
    out.set_flops(lowered.counted.flops);
    out.set_bytes_accessed(lowered.counted.bytes_accessed);
    for (const std::string& target : lowered.ffi_targets) out.add_ffi_targets(target);
    out.set_calls_lapack(lowered.text.stablehlo.find(lapack::kLapackTarget) != std::string::npos);
    out.set_calls_onednn(lowered.text.stablehlo.find(onednn::kOneDnnTarget) != std::string::npos);
    out.set_calls_sleef(lowered.text.stablehlo.find(sleef::kSleefTarget) != std::string::npos);
  }

  static void write_collective(const collectives::Collective& each, proto::Collective& out) {
    out.set_kind(static_cast<int>(each.kind));
    out.set_op(static_cast<int>(each.op));
    out.set_dtype(std::string(name(each.dtype)));
    out.set_count(each.count);
    for (const std::vector<int>& group : each.groups) {
      proto::Group& positions = *out.add_groups();
      for (const int position : group) positions.add_positions(position);
    }
    out.set_root(each.root);
    for (const auto& [source, target] : each.pairs) {
      proto::Pair& pair = *out.add_pairs();
      pair.set_source(source);
      pair.set_target(target);
    }
    out.set_description(each.description);
    lockstep::internal::write(each.site, *out.mutable_site());
  }

  collectives::Collective read_collective(const proto::Collective& in) const {
    const auto is_position = [&](std::int64_t at) {
      return at >= 0 && at < static_cast<std::int64_t>(meshes_.front().size());
    };
    bool good = in.kind() >= 0 && in.kind() <= static_cast<int>(collectives::Kind::kBarrier) &&
                in.op() >= 0 && in.op() <= static_cast<int>(collectives::ReduceOp::kMax) && in.count() >= 0;
    for (const proto::Group& group : in.groups())
      good = good && std::ranges::all_of(group.positions(), is_position);
    for (const proto::Pair& pair : in.pairs())
      good = good && is_position(pair.source()) && is_position(pair.target());
    if (!good) fail_forged(fmt::format("the collective \"{}\"", in.description()));
    collectives::Collective each;
    each.kind = static_cast<collectives::Kind>(in.kind());
    each.op = static_cast<collectives::ReduceOp>(in.op());
    each.dtype = dtype_of(in.dtype());
    each.count = in.count();
    for (const proto::Group& group : in.groups())
      each.groups.emplace_back(group.positions().begin(), group.positions().end());
    each.root = in.root();
    for (const proto::Pair& pair : in.pairs()) each.pairs.emplace_back(pair.source(), pair.target());
    each.description = in.description();
    each.site = site_of(in.site());
    return each;
  }

  void parse(std::string_view bytes) {
    if (!bytes.starts_with(kMagicOfAnyVersion)) {
      fail("[load_executable] these {} bytes were not written by serialize() of Lockstep{}", bytes.size(),
           bytes.empty() ? ": there are none" : "");
    }
    if (!bytes.starts_with(kMagic)) {
      fail(
          "[load_executable] the file is of another version of Lockstep, or was cut off: it begins with "
          "\"{}\", which should be \"{}\"",
          bytes.substr(0, bytes.find('\n')), kMagic.substr(0, kMagic.size() - 1));
    }
    const std::string_view rest = bytes.substr(std::min(bytes.size(), kMagic.size() + kDigest));
    if (bytes.substr(kMagic.size(), kDigest) != digest(rest)) {
      fail(
          "[load_executable] the {} bytes were changed or cut off after serialize() wrote them: their digest "
          "does not match",
          bytes.size());
    }
    if (!file_.ParseFromArray(rest.data(), static_cast<int>(rest.size())) || file_.program().meshes().empty())
      fail(
          "[load_executable] the file cannot be read although its digest is right: it was wrong when it was "
          "written; serialize the function again");
  }

  /// Whether it can be used here.
  void check_place() const {
    const runtime::Runtime& runtime = runtime::Runtime::get();
    const auto refuse = [&](const std::string& why) {
      fail("[load_executable] {} was compiled for {} on the platform {} and cannot be used here: {}",
           file_.program().name(), file_.devices(), file_.platform(), why);
    };
    if (runtime.described()) refuse("the devices of this process are only described, and run nothing");
    const runtime::CodeIdentity here = runtime::code_identity();
    if (file_.platform() != here.platform)
      refuse(fmt::format("this process's platform is {}", here.platform));
    if (file_.plugin() != here.plugin)
      refuse("this process has a different plugin: " + first_difference(file_.plugin(), here.plugin));
    if (file_.machine() != here.machine)
      refuse("this machine has different processors: " + first_difference(file_.machine(), here.machine));
    const int count = static_cast<int>(runtime.devices().size());
    for (const proto::Mesh& mesh : file_.program().meshes()) {
      for (const int id : mesh.devices())
        if (id < 0 || id >= count)
          refuse(fmt::format("it uses device {}, but there are {} devices", id, count));
    }
    for (const std::string& target : file_.program().ffi_targets()) runtime::check_ffi_target(target);
    if (file_.program().calls_lapack() && !lapack::is_available())
      refuse("it calls LAPACK, but " + lapack::description());
    if (file_.program().calls_onednn() && !onednn::is_available())
      refuse("it calls oneDNN, but " + onednn::description());
    if (file_.program().calls_sleef() && !sleef::is_available())
      refuse("it calls SLEEF, but " + sleef::description());
  }

  static Mesh read_mesh(const proto::Mesh& mesh) {
    const runtime::Runtime& runtime = runtime::Runtime::get();
    if (mesh.devices().empty()) return SingleDeviceSharding(runtime.local_devices().front()).mesh();
    std::vector<Device> devices;
    for (const int id : mesh.devices()) devices.push_back(runtime.devices()[static_cast<std::size_t>(id)]);
    if (mesh.axes().empty()) return SingleDeviceSharding(devices.front()).mesh();
    return Mesh(devices, Shape(mesh.shape().begin(), mesh.shape().end()),
                std::vector<std::string>(mesh.axes().begin(), mesh.axes().end()));
  }

  ArrayTypeRef read_type(const proto::ArrayType& type) const {
    Aval aval{dtype_of(type.dtype()), Shape(type.shape().begin(), type.shape().end()), type.weak_type(), {}};
    std::int64_t bytes = static_cast<std::int64_t>(size_of(aval.dtype));
    for (const std::int64_t size : aval.shape)
      if (size < 0 || __builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes))
        fail_forged(fmt::format("an array of shape {}", aval.shape));
    if (!type.committed()) {
      return intern(std::move(aval), SingleDeviceSharding(runtime::Runtime::get().local_devices().front()),
                    false);
    }
    const Mesh& mesh = meshes_.at(type.mesh());
    if (type.single_device())
      return intern(std::move(aval), SingleDeviceSharding(mesh.devices().front()), true);
    std::vector<std::vector<std::string>> entries;
    for (const proto::Axes& axes : type.spec())
      entries.emplace_back(axes.names().begin(), axes.names().end());
    return intern(std::move(aval), NamedSharding(mesh, PartitionSpec::from_entries(std::move(entries))),
                  true);
  }

  proto::Executable file_;
  std::vector<Mesh> meshes_;
};

}  // namespace

std::string write_executable(const Computation& computation, const CallDescription& call) {
  return ExecutableFile().write(computation, call);
}

LoadedExecutable read_executable(std::string_view bytes) { return ExecutableFile().read(bytes); }

}  // namespace lockstep::internal
