# SPDX-License-Identifier: Apache-2.0
# The library is built without a sanitizer, and the user's program with one. The leak sanitizer is only linked.
add_executable(consumer_leak EXCLUDE_FROM_ALL $<TARGET_OBJECTS:consumer>)
target_link_libraries(consumer_leak PRIVATE Lockstep::lockstep)
target_link_options(consumer_leak PRIVATE -fsanitize=leak)
foreach(sanitizer address thread undefined)
  add_executable(consumer_${sanitizer} EXCLUDE_FROM_ALL main.cc)
  target_link_libraries(consumer_${sanitizer} PRIVATE Lockstep::lockstep)
  target_compile_options(consumer_${sanitizer} PRIVATE -O0 -fsanitize=${sanitizer})
  target_link_options(consumer_${sanitizer} PRIVATE -fsanitize=${sanitizer})
endforeach()
