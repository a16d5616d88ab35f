# SPDX-License-Identifier: Apache-2.0
# For scripts that build everything once: files of a target are compiled several at a time (CMake's UNITY_BUILD), and what runs once
# is hardly optimised. An editing build has this off: each file is compiled alone, and a change costs its own file only.
option(MACHEPS_UNITY "Compile files of a target several at a time (builds twice as fast, rebuilds slower)" OFF)

# How files are compiled that read, print and arrange. GCC takes a third less for -Og than for -O3, and these files' time is nobody's wait.
# An installation has -O1 for what runs once, and -O3 for the rest.
set(macheps_once_options "$<$<CONFIG:Release>:-O1>")
set(macheps_cold_options)
set(macheps_test_options ${macheps_once_options})
set(macheps_loop_test_options)
if(MACHEPS_UNITY)
    # At -Og GCC 12 takes parts of std::regex for uninitialised, and a std::string behind a literal for longer than memory.
    set(macheps_cold_options "$<$<CONFIG:Release>:-Og>" "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-stringop-overflow>")
    set(macheps_once_options ${macheps_cold_options})
    # A test's assertions are half of its text; unoptimised they take the compiler less than half of the time.
    set(macheps_test_options "$<$<CONFIG:Release>:-O0>")
    # GCC takes an included source for a header, and warns of types in its anonymous namespaces.
    add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>")
    # With a heap of 1 GB GCC hardly ever looks for what it may forget, which takes it a twentieth of its time.
    add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>")
    # A hundred programs are linked: gold takes half of GNU ld's time, where binutils has it.
    include(CheckLinkerFlag)
    check_linker_flag(CXX -fuse-ld=gold macheps_has_gold)
    if(macheps_has_gold)
        add_link_options("$<$<LINK_LANGUAGE:CXX>:-fuse-ld=gold>")
    endif()
    # Half of -O3's time, for tests whose runs take hardly longer by it.
    set(macheps_loop_test_options "$<$<CONFIG:Release>:-O1>")
endif()

# A unit holds so many kB, which GCC compiles in some eight seconds: more gains little, and a change waits for its whole unit.
set(macheps_unit_kb 110)

# macheps_unity(target [KB n] [ALONE patterns...]): the target's files are compiled several at a time, in the order of their paths. Generated files, files with options of their
# own (CMake leaves them out) and those that match a pattern stay alone. KB is the size of a unit, where it is not macheps_unit_kb.
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
        math(EXPR kb "${kb} + (${bytes} + 4095) / 4096 * 4")  # by and large, or an edit would move files from unit to unit
        if(unit EQUAL 0 OR kb GREATER limit)
            math(EXPR unit "${unit} + 1")
            math(EXPR kb "(${bytes} + 4095) / 4096 * 4")
        endif()
        set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${unit})
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# macheps_cold(target pattern): the target's files that match become an object library of their own, with macheps_cold_options, where there are any.
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
