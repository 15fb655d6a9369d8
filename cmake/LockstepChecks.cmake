# SPDX-License-Identifier: Apache-2.0
# The checks of the tree's own rules, and the tests that also run under the sanitizers. After all layers.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# An include that points up the layers fails the build. Cheap enough to run in every one.
add_custom_target(check_includes ALL
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/scripts/check_includes.py ${PROJECT_SOURCE_DIR}
  COMMENT "Checking includes" VERBATIM)

if(LOCKSTEP_BUILD_TESTS)
  set(checks ${PROJECT_SOURCE_DIR}/scripts)
  add_test(NAME style.includes COMMAND Python3::Interpreter ${checks}/check_includes.py ${PROJECT_SOURCE_DIR})
  add_test(NAME style.include_check_catches_bad_includes
           COMMAND Python3::Interpreter ${checks}/check_includes.py --self-test)
  add_test(NAME style.docs COMMAND Python3::Interpreter ${checks}/check_docs.py ${PROJECT_SOURCE_DIR})
  add_test(NAME style.docs_check_catches_what_is_untrue
           COMMAND Python3::Interpreter ${checks}/check_docs.py --self-test)
  add_test(NAME style.license COMMAND Python3::Interpreter ${checks}/check_license.py ${PROJECT_SOURCE_DIR})
  add_test(NAME style.license_check_catches_a_missing_line
           COMMAND Python3::Interpreter ${checks}/check_license.py --self-test)
  add_test(NAME style.pictures COMMAND Python3::Interpreter ${checks}/pictures.py --check)
  add_test(NAME style.format COMMAND ${checks}/check_format)
  if(LOCKSTEP_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_test(NAME style.changed_header_is_precompiled_anew
             COMMAND ${PROJECT_SOURCE_DIR}/cmake/compile_cached_test.sh ${LOCKSTEP_CCACHE} ${CMAKE_CXX_COMPILER})
    set_tests_properties(style.changed_header_is_precompiled_anew PROPERTIES LABELS style)
  endif()
  set_tests_properties(style.includes style.include_check_catches_bad_includes style.docs
                       style.docs_check_catches_what_is_untrue style.license
                       style.license_check_catches_a_missing_line style.pictures style.format PROPERTIES LABELS style)

  # Targets that the presets asan and tsan build: ./test runs their tests. The runtime and users' threads are only under
  # the thread sanitizer: they take the layers above along, which touch no memory by hand. oneDNN's and the plugin's
  # layers are only under the address sanitizer: these libraries synchronize their threads unseen.
  set(sanitized watch coordination collectives)
  if(LOCKSTEP_SANITIZE STREQUAL "thread")
    list(APPEND sanitized runtime threads)
  else()
    list(APPEND sanitized onednn pjrt)
  endif()
  list(TRANSFORM sanitized APPEND _test)
  add_custom_target(sanitized_tests DEPENDS ${sanitized})
endif()
