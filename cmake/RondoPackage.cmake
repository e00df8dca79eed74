# The library that is installed, and how others find it.
#
# Makes, out of the modules of base, queues, scheduler, daemon and runtime,
#   rondo         librondo.so.0, also named Rondo::rondo
#   rondo_static  librondo.a, also named Rondo::rondo_static
# and installs both with the public headers, a pkg-config file and a CMake package. Only what the
# headers of include/rondo declare is exported: they switch the visibility to default, and modules
# are compiled with it hidden. tests/consumer holds this.

file(STRINGS ${PROJECT_SOURCE_DIR}/include/rondo/rondo.h lines
     REGEX "#define RONDO_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9]+" "." version "${lines}")
if(NOT version STREQUAL ".${PROJECT_VERSION}")
  message(FATAL_ERROR "CMakeLists.txt has version ${PROJECT_VERSION}, rondo.h has ${version}")
endif()

get_property(modules GLOBAL PROPERTY RONDO_LIBRARY_MODULES)
set(objects "")
foreach(module IN LISTS modules)
  list(APPEND objects $<TARGET_OBJECTS:${module}>)
endforeach()
add_library(rondo SHARED ${objects})
add_library(rondo_static STATIC ${objects})
foreach(target IN ITEMS rondo rondo_static)
  add_library(Rondo::${target} ALIAS ${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME rondo LINKER_LANGUAGE C)
  target_include_directories(
    ${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE Threads::Threads $<BUILD_INTERFACE:rondo_options>)
  if(RONDO_HAVE_NUMA)
    # By its bare name, so that the installed package holds no path of this machine.
    target_link_libraries(${target} PRIVATE numa)
  endif()
  if(RONDO_HAVE_MESH)
    target_link_libraries(${target} PRIVATE event_core sodium)
  endif()
endforeach()
set_target_properties(rondo PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                                       INSTALL_RPATH "")
if(NOT RONDO_SANITIZE)
  target_link_options(rondo PRIVATE -Wl,--no-undefined)
endif()
if(RONDO_IPO_IN_USE)
  set_target_properties(rondo PROPERTIES RONDO_IS_OPTIMISED_WHOLE ON)
  # What it is linked from is of this very compiler; others shall find ordinary code alone.
  add_custom_command(TARGET rondo_static POST_BUILD VERBATIM
                     COMMAND ${CMAKE_OBJCOPY} -R .gnu.lto_* -R .gnu.debuglto_* -N __gnu_lto_v1
                             $<TARGET_FILE:rondo_static>)
endif()

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Rondo)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/RondoConfig.cmake.in ${PROJECT_BINARY_DIR}/RondoConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/RondoConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)

# The .pc file finds its prefix from where it lies, so an installed tree may be moved.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(RONDO_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH up /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(RONDO_PC_PREFIX "\${pcfiledir}/${up}")
endif()
set(RONDO_PC_LIBS_PRIVATE "-pthread")
if(RONDO_HAVE_NUMA)
  string(APPEND RONDO_PC_LIBS_PRIVATE " -lnuma")
endif()
if(RONDO_HAVE_MESH)
  string(APPEND RONDO_PC_LIBS_PRIVATE " -levent_core -lsodium")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/rondo.pc.in ${PROJECT_BINARY_DIR}/rondo.pc @ONLY)

install(TARGETS rondo rondo_static EXPORT RondoTargets
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/rondo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(EXPORT RondoTargets NAMESPACE Rondo:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/RondoConfig.cmake ${PROJECT_BINARY_DIR}/RondoConfigVersion.cmake
        DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/rondo.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
foreach(section IN ITEMS 3 7)
  file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.${section})
  install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
