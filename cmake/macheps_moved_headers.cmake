# SPDX-License-Identifier: Apache-2.0
# Headers that were installed under another name: for each row of moved_headers.txt (old path, new path) a header of the old
# name that includes the new one. They are made in the build tree, so that the source tree holds each header once, and
# are there for who installs macheps and for who adds it as a subdirectory.
include(GNUInstallDirs)
set(macheps_moved_dir ${PROJECT_BINARY_DIR}/moved_headers)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/moved_headers.txt macheps_moved REGEX "^[a-z]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/moved_headers.txt)
foreach(row IN LISTS macheps_moved)
    string(REPLACE " " ";" row "${row}")
    list(GET row 0 old)
    list(GET row 1 new)
    string(REGEX REPLACE "/.*" "" room ${old})
    if(room IN_LIST MACHEPS_COMPONENTS)
        file(CONFIGURE OUTPUT ${macheps_moved_dir}/${room}/${old} CONTENT
"// SPDX-License-Identifier: Apache-2.0
// Deprecated: this header is now ${new}.
#pragma once
#include \"${new}\"
")
    endif()
endforeach()
foreach(room IN LISTS MACHEPS_COMPONENTS)
    if(IS_DIRECTORY ${macheps_moved_dir}/${room})
        target_include_directories(macheps_${room} INTERFACE $<BUILD_INTERFACE:${macheps_moved_dir}/${room}>)
        if(MACHEPS_INSTALL)
            install(DIRECTORY ${macheps_moved_dir}/${room}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/macheps COMPONENT development)
        endif()
    endif()
endforeach()
