# SPDX-License-Identifier: Apache-2.0
# Defines the components in build order, and the components that each component needs. Checks the list
# MACHEPS_COMPONENTS, adds the components that its members need, and sorts the list into build order. This file is also
# installed, because machepsConfig.cmake includes it.
set(macheps_all_components core emulation reports files study check policy configs training experiments)
set(macheps_core_needs)
set(macheps_emulation_needs core)
set(macheps_reports_needs core)
set(macheps_files_needs core)
set(macheps_study_needs core emulation reports files)
set(macheps_check_needs core emulation reports files study)
set(macheps_policy_needs core emulation reports files)
set(macheps_configs_needs core emulation reports files policy)
set(macheps_training_needs core emulation reports files policy)
set(macheps_experiments_needs core emulation reports files study check policy configs training)

# macheps_close(list out): sets `out` to the components of `list` and all components that they need, in build order.
# Unknown names are kept, at the end.
function(macheps_close wanted out)
    set(closed ${wanted})
    foreach(component IN LISTS wanted)
        list(APPEND closed ${macheps_${component}_needs})
    endforeach()
    set(ordered)
    foreach(component IN LISTS macheps_all_components closed)
        if(component IN_LIST closed AND NOT component IN_LIST ordered)
            list(APPEND ordered ${component})
        endif()
    endforeach()
    set(${out} ${ordered} PARENT_SCOPE)
endfunction()

if(DEFINED MACHEPS_COMPONENTS)
    macheps_close("${MACHEPS_COMPONENTS}" closed)
    foreach(component IN LISTS closed)
        if(NOT component IN_LIST macheps_all_components)
            message(FATAL_ERROR "MACHEPS_COMPONENTS: unknown component '${component}'; the components are ${macheps_all_components}")
        endif()
    endforeach()
    set(MACHEPS_COMPONENTS ${closed})
    if(MACHEPS_TESTS OR MACHEPS_BENCH)
        set(MACHEPS_COMPONENTS ${macheps_all_components})
    endif()
endif()
