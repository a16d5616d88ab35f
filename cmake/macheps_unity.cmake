# SPDX-License-Identifier: Apache-2.0
# MACHEPS_UNITY is for scripts that build everything once. Several files of a target are compiled together (CMake's
# UNITY_BUILD), and code that runs once is hardly optimised. Turn the option off while editing. Each file is then
# compiled alone, and a change recompiles only the changed file.
option(MACHEPS_UNITY "Compile several files of a target together (full builds are twice as fast, rebuilds are slower)" OFF)

# MACHEPS_EDIT is for editing, and the preset `dev` sets it. The component `check` and code that runs once are compiled
# with -Og, which reduces their compile time by a third.
option(MACHEPS_EDIT "Hardly optimise the code that is edited most: check, files, policy (compiles faster, runs slower)" OFF)

# Compile options for code that runs once: files that read, print and arrange data, whose run time does not matter. By
# default, this code is compiled with -O1, and all other code with -O3. MACHEPS_UNITY and MACHEPS_EDIT use -Og, for
# which GCC needs a third less time than for -O3.
set(macheps_once_options "$<$<CONFIG:Release>:-O1>")
set(macheps_cold_options)
set(macheps_test_options ${macheps_once_options})
set(macheps_loop_test_options)
# At -Og, GCC 12 reports false warnings: that parts of std::regex are uninitialised, and that the result of joining a
# string literal and a std::string is larger than memory.
set(macheps_debuggable "$<$<CONFIG:Release>:-Og>" "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-stringop-overflow>")
set(macheps_edit_options)
if(MACHEPS_EDIT)
    set(macheps_edit_options ${macheps_debuggable})
    set(macheps_once_options ${macheps_debuggable})
endif()
if(MACHEPS_UNITY)
    set(macheps_cold_options ${macheps_debuggable})
    set(macheps_once_options ${macheps_debuggable})
    # Assertions are half of the text of a test. Without optimisation they compile in less than half the time.
    set(macheps_test_options "$<$<CONFIG:Release>:-O0>")
    # In a unity build, GCC treats the included sources as headers and warns about types in their anonymous namespaces.
    add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>")
    # With a minimum heap of 1 GB, GCC hardly ever collects garbage. This saves 5 % of the compile time.
    add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>")
    # A hundred programs are linked. If binutils has gold, it links them in half the time of GNU ld.
    include(CheckLinkerFlag)
    check_linker_flag(CXX -fuse-ld=gold macheps_has_gold)
    if(macheps_has_gold)
        add_link_options("$<$<LINK_LANGUAGE:CXX>:-fuse-ld=gold>")
    endif()
    # For tests with long loops: -O1 compiles in half the time of -O3, and the tests hardly run longer.
    set(macheps_loop_test_options "$<$<CONFIG:Release>:-O1>")
endif()

# Size of a unit in kB. GCC compiles that much in about eight seconds. Larger units gain little, and a change recompiles
# its whole unit.
set(macheps_unit_kb 110)

# macheps_unity(target [KB n] [ALONE patterns...]): compiles several files of the target at a time, in the order of
# their paths. Generated files, files with their own options (CMake leaves them out) and files that match a pattern are
# compiled alone. KB is the size of a unit (default: macheps_unit_kb).
function(macheps_unity target)
    if(NOT MACHEPS_UNITY)
        return()
    endif()
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "KB" "ALONE")
    set(limit ${macheps_unit_kb})
    if(arg_KB)
        set(limit ${arg_KB})
    endif()
    get_target_property(files ${target} SOURCES)
    list(FILTER files INCLUDE REGEX "\\.cpp$")
    list(FILTER files EXCLUDE REGEX "^(/|\\$)")
    foreach(pattern IN LISTS arg_ALONE)
        list(FILTER files EXCLUDE REGEX "${pattern}")
    endforeach()
    list(SORT files)
    set(unit 0)
    set(kb 0)
    foreach(file IN LISTS files)
        file(SIZE ${CMAKE_CURRENT_SOURCE_DIR}/${file} bytes)
        math(EXPR kb "${kb} + (${bytes} + 4095) / 4096 * 4")  # rounded up, so that an edit rarely moves a file to another unit
        if(unit EQUAL 0 OR kb GREATER limit)
            math(EXPR unit "${unit} + 1")
            math(EXPR kb "(${bytes} + 4095) / 4096 * 4")
        endif()
        set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${unit})
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# macheps_cold(target pattern): moves the matching files of the target into a separate object library that is compiled
# with macheps_cold_options. Does nothing if these options are empty.
function(macheps_cold target pattern)
    if(NOT macheps_cold_options)
        return()
    endif()
    get_target_property(files ${target} SOURCES)
    set(cold ${files})
    list(FILTER cold INCLUDE REGEX "${pattern}")
    list(REMOVE_ITEM files ${cold})
    set_target_properties(${target} PROPERTIES SOURCES "${files}")
    get_target_property(libraries ${target} LINK_LIBRARIES)
    add_library(${target}_cold OBJECT ${cold})
    target_link_libraries(${target}_cold PRIVATE ${libraries})
    target_compile_options(${target}_cold PRIVATE ${macheps_cold_options})
    if(target IN_LIST macheps_python_parts)
        set_target_properties(${target}_cold PROPERTIES POSITION_INDEPENDENT_CODE ON)
    endif()
    macheps_precompile(${target}_cold macheps_precompiled_headers)
    macheps_unity(${target}_cold)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_cold>)
endfunction()
