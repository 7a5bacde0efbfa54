# How this build runs rather than what it builds: a compiler cache if there is one, and no paths of this machine in what
# comes out. Included by the top CMakeLists.txt before any target.
if(PROJECT_IS_TOP_LEVEL)
  find_program(TUTTI_CCACHE ccache)
  mark_as_advanced(TUTTI_CCACHE)
  foreach(language C CXX)
    if(TUTTI_CCACHE AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${TUTTI_CCACHE})
    endif()
  endforeach()
endif()

# -O3 is for what computes (the kernels ask for it); the rest it makes a tenth larger.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

# Headers of others that most of a target's sources read, read once: they take a good part of a build's time. What must
# compile without them is seen where CMAKE_DISABLE_PRECOMPILE_HEADERS is on, as under the sanitizers.
function(tutti_precompile target)
  set(headers <algorithm> <array> <atomic> <chrono> <functional> <map> <memory> <mutex> <optional> <span> <string> <thread>
              <unordered_map> <variant> <vector> <fmt/format.h> ${ARGN})
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()

# Paths come from debug information and assertions; a Release build has neither.
add_compile_options($<$<NOT:$<CONFIG:Release>>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
