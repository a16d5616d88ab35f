# SPDX-License-Identifier: Apache-2.0
# Install rules. Libraries, headers and package files belong to the install component `development`, the program to
# `runtime`.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(macheps_include_dir ${CMAKE_INSTALL_INCLUDEDIR}/macheps)
set(macheps_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/macheps)
set(macheps_pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Each component has its own export, so that a project that asks for core needs only the packages that core needs.
set_target_properties(macheps_flags PROPERTIES EXPORT_NAME flags)
install(TARGETS macheps_flags EXPORT macheps_core)
foreach(component IN LISTS MACHEPS_COMPONENTS)
    set_target_properties(macheps_${component} PROPERTIES EXPORT_NAME ${component})
    install(TARGETS macheps_${component} EXPORT macheps_${component}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        FILE_SET HEADERS DESTINATION ${macheps_include_dir} COMPONENT development)
    install(EXPORT macheps_${component} NAMESPACE macheps:: FILE macheps_${component}.cmake
        DESTINATION ${macheps_cmake_dir} COMPONENT development)
endforeach()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/machepsConfig.cmake.in ${PROJECT_BINARY_DIR}/machepsConfig.cmake
    INSTALL_DESTINATION ${macheps_cmake_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/machepsConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/machepsConfig.cmake ${PROJECT_BINARY_DIR}/machepsConfigVersion.cmake
    ${CMAKE_CURRENT_LIST_DIR}/macheps_components.cmake
    DESTINATION ${macheps_cmake_dir} COMPONENT development)

# pkg-config: the prefix is relative to the .pc file, so that the installed tree can be moved.
file(RELATIVE_PATH macheps_up /${macheps_pkgconfig_dir} /)
string(REGEX REPLACE "/$" "" macheps_up "${macheps_up}")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(macheps_pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
    set(macheps_pc_prefix "\${pcfiledir}/${macheps_up}")
endif()
# macheps_pc(component requires flags libraries...): writes and installs the .pc file of a component. The flags of
# macheps_flags are in the .pc file of core, which all other .pc files require.
function(macheps_pc component requires flags)
    list(TRANSFORM ARGN PREPEND " -l" OUTPUT_VARIABLE libraries)
    list(JOIN libraries "" MACHEPS_PC_LIBRARIES)
    set(component ${component})
    if(NOT component IN_LIST MACHEPS_COMPONENTS)
        return()
    endif()
    set(MACHEPS_PC_REQUIRES ${requires})
    set(MACHEPS_PC_FLAGS ${flags})
    configure_file(${PROJECT_SOURCE_DIR}/cmake/macheps.pc.in ${PROJECT_BINARY_DIR}/macheps-${component}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/macheps-${component}.pc DESTINATION ${macheps_pkgconfig_dir}
        COMPONENT development)
endfunction()
macheps_pc(core "fmt" "-std=c++20 -ffp-contract=off -pthread")
macheps_pc(emulation "macheps-core libhwy" "")
macheps_pc(reports "macheps-core" "")
macheps_pc(files "macheps-core tomlplusplus yaml-cpp zlib" "")
macheps_pc(study "macheps-emulation macheps-files macheps-reports" "" ${macheps_arb_libraries})
macheps_pc(check "macheps-study tomlplusplus" "")
macheps_pc(policy "macheps-emulation macheps-files macheps-reports tomlplusplus" "")
macheps_pc(configs "macheps-policy" "")
macheps_pc(training "macheps-policy tomlplusplus" "")
macheps_pc(experiments "macheps-check macheps-configs macheps-training" "")

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD_PARTY_NOTICES ${PROJECT_SOURCE_DIR}/CITATION.cff
    ${PROJECT_SOURCE_DIR}/README.md
    DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development
    PATTERN CMakeLists.txt EXCLUDE)

if("experiments" IN_LIST MACHEPS_COMPONENTS)
    install(TARGETS macheps RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
    install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD_PARTY_NOTICES ${PROJECT_SOURCE_DIR}/CITATION.cff
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
    # The program writes its own manual page and completions.
    if(NOT CMAKE_CROSSCOMPILING)
        set(macheps_pages ${PROJECT_BINARY_DIR}/pages)
        set(macheps_page_files ${macheps_pages}/macheps.1 ${macheps_pages}/macheps.bash ${macheps_pages}/_macheps
            ${macheps_pages}/macheps.fish)
        add_custom_command(OUTPUT ${macheps_page_files}
            COMMAND ${CMAKE_COMMAND} -E make_directory ${macheps_pages}
            COMMAND macheps man > ${macheps_pages}/macheps.1
            COMMAND macheps completion bash > ${macheps_pages}/macheps.bash
            COMMAND macheps completion zsh > ${macheps_pages}/_macheps
            COMMAND macheps completion fish > ${macheps_pages}/macheps.fish
            DEPENDS macheps COMMENT "Writing the manual page and the completions" VERBATIM)
        add_custom_target(macheps_pages ALL DEPENDS ${macheps_page_files})
        install(FILES ${macheps_pages}/macheps.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
        install(FILES ${macheps_pages}/macheps.bash RENAME macheps
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT runtime)
        install(FILES ${macheps_pages}/_macheps DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT runtime)
        install(FILES ${macheps_pages}/macheps.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
            COMPONENT runtime)
    endif()
endif()
