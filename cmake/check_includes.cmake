# Fails if one of FILES (patterns), the files of MODULE, includes a header from a folder that is not in USED.
# tutti_module (modules.cmake) runs this in the project's root before it compiles a module.
cmake_minimum_required(VERSION 3.25)
file(GLOB files RELATIVE ${CMAKE_SOURCE_DIR} ${FILES})
foreach(file IN LISTS files)
  if(file MATCHES "_(test|testing|fuzz|microbench)\\.(h|cc)$")
    continue()
  endif()
  file(STRINGS ${file} includes REGEX "^ *# *include \"")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE ".*\"(.*)\".*" "\\1" header "${include}")
    cmake_path(GET header PARENT_PATH folder)
    # Headers elsewhere (include/tutti/) are public.
    if(EXISTS ${CMAKE_SOURCE_DIR}/${header} AND NOT folder IN_LIST USED)
      message(SEND_ERROR "${file} includes ${header}, but ${MODULE} does not use ${folder}. If it may, say so in its CMakeLists.txt.")
    endif()
  endforeach()
endforeach()
