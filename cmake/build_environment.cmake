# Build settings that no target depends on: a compiler cache, if there is one, and no paths of this machine in the
# output. The top CMakeLists.txt includes this file before any target.
if(PROJECT_IS_TOP_LEVEL)
  find_program(TUTTI_CCACHE ccache)
  mark_as_advanced(TUTTI_CCACHE)
  foreach(language C CXX)
    if(TUTTI_CCACHE AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${TUTTI_CCACHE})
    endif()
  endforeach()
endif()

# -O3 is only for code that computes (the kernels request it), because it makes all other code a tenth larger.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

# The presets compile several files of a target together (CMAKE_UNITY_BUILD), which takes a third of the time. So a name in
# an anonymous namespace is used once in a module. The presets debug, asan, ubsan and tsan compile each file by itself;
# there a file shows that it includes what it needs.

# Precompiles external headers that most of a target's sources include, because parsing them takes much of the build
# time. Builds with CMAKE_DISABLE_PRECOMPILE_HEADERS, such as the sanitizer builds, check that sources compile without
# them. A target whose sources are compiled together as one file has no use for it.
function(tutti_precompile target)
  set(in_one_file 8)  # CMake's batch
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  get_target_property(together ${target} UNITY_BUILD)
  if(together AND count LESS_EQUAL in_one_file)
    return()
  endif()
  set(headers <algorithm> <array> <atomic> <chrono> <functional> <map> <memory> <mutex> <optional> <span> <string> <thread>
              <unordered_map> <variant> <vector> <fmt/format.h> ${ARGN})
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()

# Release builds need no mapping: they contain no debug information or assertions, where such paths appear.
add_compile_options($<$<NOT:$<CONFIG:Release>>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
