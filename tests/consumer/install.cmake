# SPDX-License-Identifier: Apache-2.0
# cmake -DBUILD=... -DSOURCE=... -DPREFIX=... -DVERSION=... -DCONFIG=...
# -P install.cmake: installs macheps, moves the installed tree, and checks its files.
set(staged ${PREFIX}.staged)
file(REMOVE_RECURSE ${PREFIX} ${staged})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${staged} OUTPUT_QUIET RESULT_VARIABLE failed)
if(failed)
    message(FATAL_ERROR "cmake --install ended with ${failed}; was everything built?")
endif()
# The component `runtime` is the program without headers and libraries.
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${staged}.runtime --component runtime OUTPUT_QUIET)
if(NOT EXISTS ${staged}.runtime/bin/macheps OR EXISTS ${staged}.runtime/include OR EXISTS ${staged}.runtime/lib)
    message(FATAL_ERROR "--component runtime: not the program alone")
endif()
file(REMOVE_RECURSE ${staged}.runtime)
file(RENAME ${staged} ${PREFIX})  # all tests use a tree that was moved after its installation

# No installed file may contain the path of the source, build or staging folder. Binaries with debug information or asserts
# are not searched. If the source is at /macheps, the path include/macheps does not count.
set(search -rlaE)
if(NOT CONFIG STREQUAL "Release")
    set(search -rIlE)
endif()
foreach(path ${SOURCE} ${BUILD} ${staged})
    string(REGEX REPLACE "([][+.*?^$(){}|\\])" "\\\\\\1" pattern "${path}")
    execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C grep ${search} -e "(^|[^A-Za-z0-9_./}-]|-[IL])${pattern}([^A-Za-z0-9_-]|$)" ${PREFIX}
                    OUTPUT_VARIABLE found)
    if(found)
        message(FATAL_ERROR "these installed files name ${path}:\n${found}")
    endif()
endforeach()

# Every header that an installed header includes must also be installed.
set(include ${PREFIX}/include/macheps)
file(GLOB_RECURSE headers ${include}/*.hpp ${include}/*.inl)
list(LENGTH headers count)
foreach(header IN LISTS headers)
    file(STRINGS ${header} lines REGEX "^ *#include \"")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE "^ *#include \"([^\"]*)\".*" "\\1" name "${line}")
        if(NOT EXISTS ${include}/${name})
            string(APPEND missing "${header} includes ${name}\n")
        endif()
    endforeach()
endforeach()
if(missing)
    message(FATAL_ERROR "headers that are not installed:\n${missing}")
endif()

foreach(file bin/macheps share/man/man1/macheps.1 share/bash-completion/completions/macheps
        share/zsh/site-functions/_macheps share/fish/vendor_completions.d/macheps.fish share/doc/macheps/LICENSE
        share/doc/macheps/THIRD_PARTY_NOTICES
        share/doc/macheps/CITATION.cff share/doc/macheps/README.md share/doc/macheps/docs/architecture.md
        share/doc/macheps/examples/sums.cpp)
    if(NOT EXISTS ${PREFIX}/${file})
        message(FATAL_ERROR "${file} was not installed")
    endif()
endforeach()
file(STRINGS ${PREFIX}/share/doc/macheps/CITATION.cff version REGEX "^version: ${VERSION}$")
if(NOT version)
    message(FATAL_ERROR "CITATION.cff is not of version ${VERSION}")
endif()
message(STATUS "${count} headers installed, and nothing that they include is missing")
