# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: the public headers, the libraries, the tool, the XLA CPU plugin, and the packages that
# find_package(Lockstep) and pkg-config find. Targets: Lockstep::lockstep, Lockstep::pch, Lockstep::shared, and
# Lockstep::testing_main for process tests where GoogleTest is there.
include(CMakePackageConfigHelpers)

# What is not said to be of the component runtime is for building programs.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)
set(plugin_dir ${CMAKE_INSTALL_LIBDIR}/lockstep)

# The public headers, and those that they include; nothing of gRPC, protobuf, PJRT or UCX is among them.
set(public_list ${CMAKE_CURRENT_LIST_DIR}/public_headers.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${public_list} ${PROJECT_SOURCE_DIR}/lockstep/lockstep.h)
file(STRINGS ${public_list} waiting REGEX "^lockstep/")
if(NOT TARGET lockstep_testing)
  list(FILTER waiting EXCLUDE REGEX "^lockstep/testing/")
endif()
list(APPEND waiting lockstep/lockstep.h)
set(public_headers ${waiting})
while(waiting)
  list(POP_FRONT waiting header)
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} lines REGEX "^#include ")
  foreach(line IN LISTS lines)
    if(line MATCHES "<(grpc|grpcpp|google/protobuf|xla|ucp)/|\\.pb\\.h[>\"]")
      message(FATAL_ERROR "${header} would be installed, and has ${line}")
    elseif(line MATCHES "\"(lockstep/.*)\"" AND NOT CMAKE_MATCH_1 IN_LIST public_headers)
      list(APPEND waiting ${CMAKE_MATCH_1})
      list(APPEND public_headers ${CMAKE_MATCH_1})
    endif()
  endforeach()
endwhile()
foreach(header IN LISTS public_headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()
# Kernels for ffi_call include XLA's own.
foreach(header api.h c_api.h ffi.h)
  install(FILES ${LOCKSTEP_XLA_INCLUDE_DIR}/xla/ffi/api/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/xla/ffi/api)
endforeach()

get_property(layers GLOBAL PROPERTY LOCKSTEP_LAYERS)
set(exported ${layers} lockstep lockstep_pch lockstep_shared lockstep_options lockstep_xla_headers)
if(TARGET lockstep_testing_main)
  list(APPEND exported lockstep_testing_main)
endif()
foreach(target IN LISTS exported)
  string(REGEX REPLACE "^lockstep_" "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endforeach()
install(TARGETS ${exported} EXPORT LockstepTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(EXPORT LockstepTargets NAMESPACE Lockstep:: DESTINATION ${package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/LockstepConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/LockstepConfig.cmake
                              INSTALL_DESTINATION ${package_dir} PATH_VARS plugin_dir)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/LockstepConfig.cmake ${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/LockstepLinkDependencies.cmake
        DESTINATION ${package_dir})
include(LockstepPkgConfig)
install(FILES ${PROJECT_SOURCE_DIR}/scripts/valgrind.supp DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR}
        COMPONENT runtime)
install(TARGETS lockstep_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
# Not there where the user has a plugin of his own.
install(PROGRAMS ${PROJECT_SOURCE_DIR}/third_party/pjrt/pjrt_c_api_cpu_plugin.so DESTINATION ${plugin_dir}
        COMPONENT runtime OPTIONAL)
install(FILES ${PROJECT_SOURCE_DIR}/third_party/onednn/libdnnl.so.3 DESTINATION ${plugin_dir} COMPONENT onednn OPTIONAL)
if(TARGET lockstep_parquet)
  install(TARGETS lockstep_parquet LIBRARY DESTINATION ${plugin_dir} COMPONENT runtime)
  set(arrow ${PROJECT_SOURCE_DIR}/third_party/parquet)
  install(PROGRAMS ${arrow}/libparquet.so.2600 ${arrow}/libarrow.so.2600 DESTINATION ${plugin_dir}
          COMPONENT runtime)
endif()
if(PROJECT_IS_TOP_LEVEL)
  include(LockstepPackage)
endif()
