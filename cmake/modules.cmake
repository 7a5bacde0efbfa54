# The modules of the library. A module is a folder and a target. It must be declared after the modules that it uses, so
# no two modules can use each other. Its files may include only headers of modules that it uses; otherwise
# check_includes.cmake stops the build.
#
# tutti_module(FOLDER
#              FAST                   most of it runs in every call; other modules are compiled for size where that costs little
#              ABOUT text             its one purpose, for docs/architecture.md
#              USES module...         folders, from the project's root; includes the modules that they use
#              LINKS target...        other libraries
#              SOURCES file...        library sources; none: a header-only module
#              UNUSED file...         sources that this build leaves out (check_sources.cmake)
#              TESTS file...          for tutti_unit_tests
#              BENCHMARKS file...     for tutti-microbench
#              FUZZ file...           one fuzz program each (fuzz.cmake)
#              FUZZ_USES module...)   modules that these need besides this one
# FOLDER and the files are relative to the calling CMakeLists.txt. A file may lie in a folder below FOLDER, which then
# belongs to the module. The target's name is tutti_ and the folder's path
# from the project's root, with _ for /. Tests, benchmarks, fuzz targets and headers named *_testing.h may include any
# module.
set(TUTTI_CHECK_INCLUDES ${CMAKE_CURRENT_LIST_DIR}/check_includes.cmake)

# tutti_describe(FOLDER ABOUT USES...): adds a line to build/PRESET/modules.tsv, which scripts/docs/draw_modules.py
# draws.
function(tutti_describe module about)
  string(JOIN " " uses ${ARGN})
  set_property(GLOBAL APPEND_STRING PROPERTY TUTTI_MODULE_LINES "${module}\t${about}\t${uses}\n")
endfunction()

# tutti_leaves_out(PATTERN...)      sources, relative to the calling CMakeLists.txt, that this configuration does not compile
#                                   (check_sources.cmake)
function(tutti_leaves_out)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE patterns)
  file(GLOB files ${patterns})
  set_property(GLOBAL APPEND PROPERTY TUTTI_MODULE_UNUSED ${files})
endfunction()

function(tutti_module folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FAST" "ABOUT" "USES;LINKS;SOURCES;UNUSED;TESTS;BENCHMARKS;FUZZ;FUZZ_USES")
  cmake_path(ABSOLUTE_PATH folder NORMALIZE OUTPUT_VARIABLE path)
  string(REGEX REPLACE "/$" "" path ${path})
  cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE module)
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${module}: tutti_module does not know ${arg_UNPARSED_ARGUMENTS}")
  endif()
  string(REPLACE "/" "_" name tutti_${module})

  set(used)
  set(used_targets)
  foreach(other IN LISTS arg_USES)
    string(REPLACE "/" "_" target tutti_${other})
    if(NOT TARGET ${target})
      message(FATAL_ERROR "${module} uses ${other}, which is not below it: no module of this name is declared before")
    endif()
    get_property(further GLOBAL PROPERTY TUTTI_USED_BY_${other})
    get_property(folders GLOBAL PROPERTY TUTTI_FOLDERS_OF_${other})
    list(APPEND used ${folders} ${further})
    list(APPEND used_targets ${target})
  endforeach()
  list(REMOVE_DUPLICATES used)
  set_property(GLOBAL PROPERTY TUTTI_USED_BY_${module} ${used})
  set(folders ${module})
  foreach(source IN LISTS arg_SOURCES arg_UNUSED)
    cmake_path(SET source_path NORMALIZE ${module}/${source})
    cmake_path(GET source_path PARENT_PATH source_folder)
    list(APPEND folders ${source_folder})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set_property(GLOBAL PROPERTY TUTTI_FOLDERS_OF_${module} ${folders})
  set_property(GLOBAL APPEND PROPERTY TUTTI_MODULES ${module})
  tutti_describe(${module} "${arg_ABOUT}" ${arg_USES})

  foreach(kind SOURCES UNUSED TESTS BENCHMARKS FUZZ)
    list(TRANSFORM arg_${kind} PREPEND ${path}/)
  endforeach()
  foreach(kind UNUSED TESTS BENCHMARKS FUZZ)
    set_property(GLOBAL APPEND PROPERTY TUTTI_MODULE_${kind} ${arg_${kind}})
  endforeach()
  foreach(source IN LISTS arg_FUZZ)
    set_property(GLOBAL PROPERTY TUTTI_FUZZ_USES_${source} ${module} ${arg_FUZZ_USES})
  endforeach()

  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    set(reach PUBLIC)
    # The modules contain code that only tools call; these flags let the linker drop it from the library.
    target_compile_options(${name} PRIVATE -ffunction-sections -fdata-sections)
    if(NOT arg_FAST AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      # No padding: it is 3 % of the code. -Os would need a precompiled header of its own.
      target_compile_options(${name} PRIVATE -fno-align-functions -fno-align-loops -fno-align-jumps -fno-align-labels)
    endif()
    target_precompile_headers(${name} REUSE_FROM tutti_precompiled)
  else()
    add_library(${name} INTERFACE)
    set(reach INTERFACE)
  endif()
  target_include_directories(${name} ${reach} ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} ${reach} tutti_options ${used_targets} ${arg_LINKS})

  set(patterns)
  foreach(each IN LISTS folders)
    list(APPEND patterns ${each}/*.h ${each}/*.cc ${each}/*.cu)
  endforeach()
  list(TRANSFORM patterns PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE paths)
  file(GLOB files CONFIGURE_DEPENDS ${paths})
  set(checked ${PROJECT_BINARY_DIR}/modules/${name}.checked)
  add_custom_command(
    OUTPUT ${checked}
    COMMAND ${CMAKE_COMMAND} -D "MODULE=${module}" -D "FILES=${patterns}" -D "USED=${folders};${used}" -P ${TUTTI_CHECK_INCLUDES}
    COMMAND ${CMAKE_COMMAND} -E touch ${checked}
    DEPENDS ${files} ${TUTTI_CHECK_INCLUDES}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMENT "Checking what ${module} includes"
    VERBATIM)
  add_custom_target(${name}_checked DEPENDS ${checked})
  add_dependencies(${name} ${name}_checked)
endfunction()
