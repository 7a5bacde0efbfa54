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

# Paths come from debug information and assertions; a Release build has neither.
add_compile_options($<$<NOT:$<CONFIG:Release>>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
