# SPDX-License-Identifier: Apache-2.0
# A compiler cache makes a second build quick, precompiled headers the first one.
find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/compile_cached.sh ${LOCKSTEP_CCACHE})
endif()

# Sources of a target are compiled eight at a time: templates and headers that they share are compiled once, in about
# half of the time. Anonymous namespaces of a batch are one, so that names in them differ.
# LOCKSTEP_UNITY=OFF compiles each source alone.
option(LOCKSTEP_UNITY "Compile sources in batches" ON)
set(CMAKE_UNITY_BUILD ${LOCKSTEP_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)

add_library(lockstep_options INTERFACE)
target_compile_options(lockstep_options INTERFACE
                       "$<BUILD_INTERFACE:-Wall;-Wextra;-Wno-missing-field-initializers>")
if(LOCKSTEP_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # It takes the sources of a batch for headers.
  target_compile_options(lockstep_options INTERFACE "$<BUILD_INTERFACE:-Wno-subobject-linkage>")
endif()
target_include_directories(lockstep_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(lockstep_options INTERFACE cxx_std_20)
# Call sites in a library are paths in the source tree: no installed file names a folder of the machine that built it.
# With sanitizers, so are the paths of their stacks.
file(RELATIVE_PATH source_from_build ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}/)
set(prefix_map -fmacro-prefix-map)
if(LOCKSTEP_SANITIZE)
  set(prefix_map -ffile-prefix-map)
endif()
target_compile_options(lockstep_options INTERFACE
                       "$<BUILD_INTERFACE:${prefix_map}=${PROJECT_SOURCE_DIR}/=;${prefix_map}=${source_from_build}=>")
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
endif()
# Not -O3, which takes longer to compile: loops over elements are Highway's and XLA's.
target_compile_options(lockstep_options INTERFACE "$<BUILD_INTERFACE:$<$<CONFIG:Release>:-O2>>")
# g++ collects its own garbage less often: a fifth of the time of a large file, for 1 GiB of memory.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(lockstep_options INTERFACE "$<BUILD_INTERFACE:SHELL:--param ggc-min-heapsize=1000000>")
endif()
# lld links a test in half a second instead of four. Programs of users are linked by whatever they choose.
find_program(LOCKSTEP_LLD ld.lld)
if(LOCKSTEP_LLD AND CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang" AND PROJECT_IS_TOP_LEVEL)
  add_link_options(-fuse-ld=lld)
endif()
# lockstep_generated_code(TARGET): compiles what a generator wrote: without our warnings, but with the sanitizer, as all
# code that shares inline functions with ours.
function(lockstep_generated_code target)
  target_compile_options(${target} PRIVATE -w)
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  if(LOCKSTEP_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${LOCKSTEP_SANITIZE} -O0)
  endif()
endfunction()
# lockstep_layer_of_proto(TARGET FILE): the library of the messages in FILE.proto of this folder, which belongs to a layer. It
# is one of its own, so that it compiles without our warnings.
function(lockstep_layer_of_proto target name)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
  set(files ${generated}/${name}.pb.cc ${generated}/${name}.pb.h)
  file(MAKE_DIRECTORY ${generated})
  add_custom_command(
    OUTPUT ${files}
    COMMAND protobuf::protoc --proto_path=${CMAKE_CURRENT_SOURCE_DIR} --cpp_out=${generated} ${name}.proto
    DEPENDS ${name}.proto
    COMMENT "Generating the messages of ${name}.proto"
    VERBATIM)
  add_library(${target} STATIC ${files})
  lockstep_generated_code(${target})
  target_include_directories(${target} SYSTEM PUBLIC $<BUILD_INTERFACE:${generated}>)
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf)
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_LAYERS ${target})
endfunction()
# Tests and examples spend their time in the libraries: they run about as fast at -O0, and compile in half the time.
add_library(lockstep_thin_options INTERFACE)
target_compile_options(lockstep_thin_options INTERFACE $<$<NOT:$<CONFIG:Debug>>:-O0>)
# The checks of every access through a pointer double what a source file takes to compile: only layers that touch memory
# by hand have them.
set(LOCKSTEP_LAYERS_OF_RAW_MEMORY base watch collectives onednn sleef threefry)
if(LOCKSTEP_SANITIZE)
  add_library(lockstep_lightly_sanitized INTERFACE)
  target_compile_options(lockstep_lightly_sanitized INTERFACE -O0)
  if(LOCKSTEP_SANITIZE MATCHES undefined)
    target_compile_options(lockstep_lightly_sanitized INTERFACE -fno-sanitize=null,alignment,vptr,object-size)
  endif()
endif()
# Headers that nearly every source includes are parsed once: a fifth of the time that a layer takes, half of that of its
# tests. LOCKSTEP_PRECOMPILE=OFF checks that each file includes what it uses.
option(LOCKSTEP_PRECOMPILE "Precompile what nearly every source includes" ON)
set(LOCKSTEP_COMMON_HEADERS
    <algorithm> <chrono> <cstddef> <cstdint> <functional> <map> <memory> <mutex> <optional> <source_location> <span>
    <string> <string_view> <tuple> <type_traits> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
if(LOCKSTEP_PRECOMPILE)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(lockstep_options INTERFACE $<BUILD_INTERFACE:-fpch-preprocess>)  # ccache wants it
  endif()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cc CONTENT "// Of precompiled headers.\n")
  add_library(lockstep_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
  target_link_libraries(lockstep_precompiled PRIVATE lockstep_options fmt::fmt)
  target_precompile_headers(lockstep_precompiled PRIVATE ${LOCKSTEP_COMMON_HEADERS})
  if(TARGET lockstep_lightly_sanitized)  # Headers are precompiled for one set of options.
    add_library(lockstep_precompiled_light OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
    target_link_libraries(lockstep_precompiled_light PRIVATE lockstep_options lockstep_lightly_sanitized fmt::fmt)
    target_precompile_headers(lockstep_precompiled_light PRIVATE ${LOCKSTEP_COMMON_HEADERS})
  endif()
  if(LOCKSTEP_BUILD_TESTS)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled_test.cc CONTENT "int main() {}\n")
    add_executable(lockstep_precompiled_test ${PROJECT_BINARY_DIR}/precompiled_test.cc)
    target_link_libraries(lockstep_precompiled_test PRIVATE lockstep_options lockstep_thin_options fmt::fmt GTest::gmock)
    set(test_headers ${LOCKSTEP_COMMON_HEADERS} <array> <filesystem> <fstream> <sstream> <thread> <gmock/gmock.h>
                     <gtest/gtest.h>)
    target_precompile_headers(lockstep_precompiled_test PRIVATE ${test_headers})
    # And all public headers besides, for tests of what users call.
    add_executable(lockstep_precompiled_public_test EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/precompiled_test.cc)
    target_link_libraries(lockstep_precompiled_public_test PRIVATE lockstep_options lockstep_thin_options fmt::fmt
                                                                   GTest::gmock)
    target_precompile_headers(lockstep_precompiled_public_test PRIVATE ${test_headers} <lockstep/lockstep.h>)
  endif()
endif()
# lockstep_precompile_test(TARGET [PUBLIC]): with GoogleTest's headers precompiled; PUBLIC: with Lockstep's, too.
function(lockstep_precompile_test target)
  set(precompiled lockstep_precompiled_test)
  if("PUBLIC" IN_LIST ARGN)
    set(precompiled lockstep_precompiled_public_test)
  endif()
  if(TARGET ${precompiled})
    target_precompile_headers(${target} REUSE_FROM ${precompiled})
  endif()
endfunction()
# The layers whose tests call what users call.
set(LOCKSTEP_PUBLIC_LAYERS ops random nn optim jit sparse interop data checkpoint metrics)
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|aarch64")
  message(WARNING "Lockstep is tested on x86_64 only.")
endif()

# lockstep_discover_tests(TARGET LABEL ...): GoogleTest's tests of an executable, each a test LABEL.SUITE.NAME of ctest.
#   TIMEOUT      of each, in seconds; 300 where it is not said
#   LOCK         of something that only one test may use at a time (ctest's RESOURCE_LOCK)
#   LONG         ctest begins with them where it does not know yet how long tests take, so that none is left for the end
#   UNOPTIMIZED  XLA leaves LLVM's optimizer out, which takes a third of the time where programs are small
#   EXCEPT       tests (a filter) for which it does not
function(lockstep_discover_tests target label)
  cmake_parse_arguments(arg "UNOPTIMIZED;LONG" "TIMEOUT;EXCEPT;LOCK" "" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set(how DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS ${label})
  if(arg_LOCK)
    list(APPEND how RESOURCE_LOCK ${arg_LOCK})
  endif()
  if(arg_LONG)
    list(APPEND how COST 60)
  endif()
  if(NOT arg_UNOPTIMIZED)
    gtest_discover_tests(${target} TEST_PREFIX ${label}. ${how})
    return()
  endif()
  if(arg_EXCEPT)
    gtest_discover_tests(${target} TEST_PREFIX ${label}. TEST_FILTER ${arg_EXCEPT} ${how})
    set(others TEST_FILTER -${arg_EXCEPT})
  endif()
  gtest_discover_tests(${target} TEST_PREFIX ${label}. ${others} ${how}
                       ENVIRONMENT XLA_FLAGS=--xla_backend_optimization_level=0)
endfunction()

# lockstep_layer(NAME DEPS ...): the static library of the folder lockstep/NAME, made of every source in it that is
# neither a test nor in a folder plugins/, and one test executable, NAME_test, of every *_test.cc in it.
#   DEPS       layers and libraries below it, PUBLIC
#   PRIVATE    libraries that only its sources see
#   TEST_DEPS  what the tests need besides
#   OPTIMIZED  tests (a filter) that compute so much that XLA's optimizer pays
#   SEPARATE   sources that are compiled alone: they name their own functions like others do
# Process tests re-execute their own executable, so each test executable has lockstep/testing's main where it asks
# for lockstep_testing, and GoogleTest's otherwise.
function(lockstep_layer name)
  cmake_parse_arguments(arg "" "OPTIMIZED" "DEPS;PRIVATE;TEST_DEPS;SEPARATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$|/plugins/")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(target lockstep_${name})
  if(arg_SEPARATE)
    set_source_files_properties(${arg_SEPARATE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(sources)
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PUBLIC lockstep_options ${arg_DEPS} PRIVATE ${arg_PRIVATE})
    if(TARGET lockstep_lightly_sanitized AND NOT name IN_LIST LOCKSTEP_LAYERS_OF_RAW_MEMORY)
      target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:lockstep_lightly_sanitized>)
      if(TARGET lockstep_precompiled_light)
        target_precompile_headers(${target} REUSE_FROM lockstep_precompiled_light)
      endif()
    elseif(TARGET lockstep_precompiled)
      target_precompile_headers(${target} REUSE_FROM lockstep_precompiled)
    endif()
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE lockstep_options ${arg_DEPS})
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_LAYERS ${target})
  if(LOCKSTEP_BUILD_TESTS AND tests)
    add_executable(${name}_test ${tests})
    if("lockstep_testing" IN_LIST arg_TEST_DEPS)
      set(test_main lockstep_testing_main)
    else()
      set(test_main GTest::gtest_main)
    endif()
    target_link_libraries(${name}_test PRIVATE ${target} ${arg_PRIVATE} ${arg_TEST_DEPS} ${test_main} GTest::gmock
                                               lockstep_thin_options)
    set(public "")
    if(name IN_LIST LOCKSTEP_PUBLIC_LAYERS)
      set(public PUBLIC)
    endif()
    lockstep_precompile_test(${name}_test ${public})
    # Tests in tests/ run programs as users get them.
    lockstep_discover_tests(${name}_test ${name} UNOPTIMIZED EXCEPT ${arg_OPTIMIZED})
  endif()
endfunction()
