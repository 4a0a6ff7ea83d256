# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Everything that is installed: the two programs, the libraries that they load,
# and the headers and CMake package of the embeddable runtime.
include(CMakePackageConfigHelpers)

foreach(target fsdp-opt fsdp-capture fsdp-ir fsdp-mlir fsdp-run fsdp-cuda fsdp-kernels)
  if(TARGET ${target})
    install(TARGETS ${target}
      RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()

if(TARGET fsdp-runtime)
  target_include_directories(fsdp-runtime INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/fsdp>)
  install(TARGETS fsdp-runtime EXPORT fsdp-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT fsdp-targets NAMESPACE fsdp::
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fsdp)
  configure_package_config_file(cmake/fsdp-config.cmake.in
    ${PROJECT_BINARY_DIR}/fsdp-config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fsdp)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/fsdp-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/fsdp-config.cmake
                ${PROJECT_BINARY_DIR}/fsdp-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fsdp)
  # They include one another and nothing else of ours (test/boundaries).
  set(FSDP_PUBLIC_HEADERS runtime/launch/Launch.h runtime/session/Session.h runtime/states/Exported.h
    runtime/device/DeviceOptions.h runtime/exec/MatmulLibrary.h plan/Trust.h support/Error.h support/Errors.def)
  foreach(header ${FSDP_PUBLIC_HEADERS})
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fsdp/${folder})
  endforeach()
endif()
