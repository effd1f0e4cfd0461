# find_package(tdump): the target tdump::tdump has the header of the one-liners, tdump/tdump.h. There is nothing to link:
# tdump comes into the program when it is started under tdump-run.
get_filename_component(_tdump_prefix ${CMAKE_CURRENT_LIST_DIR}/../../.. ABSOLUTE)
if(NOT TARGET tdump::tdump)
  add_library(tdump::tdump INTERFACE IMPORTED)
  set_target_properties(tdump::tdump PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${_tdump_prefix}/include)
endif()
set(TDUMP_RUN_EXECUTABLE ${_tdump_prefix}/bin/tdump-run)
unset(_tdump_prefix)
