# Tests of the CUDA backend again, with the kernels that nvcc compiled, executed by the PTX machine
# (tests/support/ptx) in place of functions of the host. A quick set on every build; the others
# under soak. Programs with windows of NCCL are left out: the kernel that looks up members reads
# structures of NCCL that the stand-in for NCCL does not have. ptx.window_lookup makes them by hand.

# The source lines of the kernels: gpu_lines(<output> <source> <option> ...)
function(gpu_lines output source)
  add_custom_command(
    OUTPUT ${output}
    COMMAND tests/gpu/compile_lines.sh ${output} ${RONDO_KERNEL_CACHE} ${RONDO_NVCC} -std=c++17 -O3
            -fmad=false -arch=compute_90 ${ARGN} -I. -Iinclude ${source}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    DEPENDS ${PROJECT_SOURCE_DIR}/${source} ${CMAKE_CURRENT_SOURCE_DIR}/compile_lines.sh
    DEPFILE ${output}.d
    COMMENT "Compiling ${source} with its lines"
    VERBATIM)
endfunction()
set(daemon_lines ${CMAKE_CURRENT_BINARY_DIR}/daemon.lines.ptx)
set(kernels_lines ${CMAKE_CURRENT_BINARY_DIR}/kernels.lines.ptx)
set(daemon_faults ${CMAKE_CURRENT_BINARY_DIR}/daemon.faults.ptx)
gpu_lines(${daemon_lines} daemon/cuda/kernel.cu)
gpu_lines(${daemon_faults} daemon/cuda/kernel.cu -DRONDO_FAULT_IN_TEXT)
gpu_lines(${kernels_lines} tests/gpu/kernels.cu)
add_custom_target(gpu_ptx_lines ALL DEPENDS ${daemon_lines} ${daemon_faults} ${kernels_lines})
rondo_test_executable(test_ptx_lines test_ptx_lines.c rondo_ptx)
target_link_libraries(test_ptx_lines PRIVATE PkgConfig::CMOCKA)
add_test(NAME ptx.daemon_lines COMMAND test_ptx_lines ${RONDO_CUDA_IMAGE} ${daemon_lines}
                                       rondo_cuda_daemon)
add_test(NAME ptx.kernels_lines COMMAND test_ptx_lines ${kernels} ${kernels_lines} gpu_matmul)
rondo_test_properties(ptx.daemon_lines "unit;ptx" 60)
rondo_test_properties(ptx.kernels_lines "unit;ptx" 60)

if(TARGET rondo_nccl_kernel)
  rondo_test_executable(test_ptx_lookup test_ptx_lookup.c rondo_ptx)
  target_link_libraries(test_ptx_lookup PRIVATE PkgConfig::CMOCKA)
  add_dependencies(test_ptx_lookup rondo_nccl_kernel)
  add_test(NAME ptx.window_lookup COMMAND test_ptx_lookup ${RONDO_NCCL_IMAGE})
  rondo_test_properties(ptx.window_lookup "unit;ptx" 60)
endif()

# Scripted runs: the program, the stand-in and the kernels in an order that a seed chooses. One of
# the first seeds must notice each fault that is planted into the kernel. Those tests have the label
# explore, so that scripts/check runs them in one preset: it takes minutes, and the text of the
# kernel is the same in each.
if(TARGET test_cuda_seeds)
  function(gpu_ptx_seeds_test name labels ptx)
    add_test(NAME ptx.${name} COMMAND test_cuda_seeds --ptx=${ptx} ${ARGN}
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    rondo_test_properties(ptx.${name} "${labels};ptx" 300)
  endfunction()
  gpu_ptx_seeds_test(seeds integration ${daemon_lines} --seeds=4)
  gpu_ptx_seeds_test(seeds_late_readers integration ${daemon_lines} --late-readers --seeds=2)
  gpu_ptx_seeds_test(seeds_replay integration ${daemon_lines} --seeds=1 --replay)
  gpu_ptx_seeds_test(seeds_many soak ${daemon_lines} --first=4 --seeds=500)
  set_tests_properties(ptx.seeds_many PROPERTIES TIMEOUT 3600)
  file(READ ${PROJECT_SOURCE_DIR}/tests/integration/ptx_mutations.h mutations)
  string(REGEX MATCHALL "\n    {\"[a-z0-9_]+" mutations "${mutations}")
  list(TRANSFORM mutations REPLACE "\n    {\"" "")
  foreach(mutation IN LISTS mutations)
    if(mutation MATCHES "^fault_")
      set(ptx ${daemon_faults})
    else()
      set(ptx ${daemon_lines})
    endif()
    gpu_ptx_seeds_test(mutation_${mutation} explore ${ptx} --mutation=${mutation})
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
                                         ${PROJECT_SOURCE_DIR}/tests/integration/ptx_mutations.h)
endif()

# gpu_ptx_test(<name> <label> <options of the stand-in> <command> ...)
function(gpu_ptx_test name label options)
  add_test(NAME ptx.${name} COMMAND ${RONDO_TEST_LAUNCHER} ${ARGN})
  rondo_test_properties(ptx.${name} "${label};ptx" 300)
  set_property(
    TEST ptx.${name} APPEND
    PROPERTY ENVIRONMENT "RONDO_TEST_REDUCED=1" "RONDO_TEST_SECONDS=280"
             "RONDO_TEST_FAKE_CUDA=${options}" "RONDO_TEST_PTX_IMAGES=${RONDO_CUDA_IMAGE}:${timed}"
             "RONDO_TEST_PTX_LINES=${daemon_lines}:${kernels_lines}"
             "LD_LIBRARY_PATH=${RONDO_FAKE_CUDA_DIR}")
endfunction()
gpu_ptx_test(gpu_data integration "devices=2,peer_access=0,ptx=1" $<TARGET_FILE:gpu_tests> bits
             matrix kinds devices)
gpu_ptx_test(gpu_scratch integration "ptx=1" $<TARGET_FILE:gpu_tests> matrix kinds)
set_property(TEST ptx.gpu_scratch APPEND PROPERTY ENVIRONMENT
             "RONDO_ALGO=all_reduce=one-shot,reduce_scatter=halving,all_to_all=bruck")
gpu_ptx_test(gpu_trees integration "ptx=1" $<TARGET_FILE:gpu_tests> matrix kinds)
set(trees "all_reduce=double-tree,reduce=double-tree,broadcast=double-tree")
set_property(TEST ptx.gpu_trees APPEND PROPERTY ENVIRONMENT
             "RONDO_ALGO=${trees},gather=binomial,scatter=binomial")
gpu_ptx_test(gpu_packets integration "devices=2,ptx=1" $<TARGET_FILE:gpu_tests> bits kinds devices)
set(packets "all_reduce=two-shot-packets,all_gather=direct-packets")
set_property(TEST ptx.gpu_packets APPEND PROPERTY ENVIRONMENT
             "RONDO_ALGO=${packets},reduce_scatter=direct-packets")
gpu_ptx_test(gpu_programs integration "ptx=1" $<TARGET_FILE:gpu_tests> half_done disordered
             synchronised calls abort restarts)
gpu_ptx_test(gpu_streams integration "ptx=1" $<TARGET_FILE:gpu_tests> streams graphs)
gpu_ptx_test(gpu_unset integration "ptx=2" $<TARGET_FILE:gpu_tests> kinds half_done streams)
gpu_ptx_test(gpu_seeded integration "ptx=1,ptx_seed=1,ptx_timer_ns=1024" $<TARGET_FILE:gpu_tests>
             kinds half_done disordered streams)
foreach(seed RANGE 2 9)
  gpu_ptx_test(gpu_seeded_${seed} soak "devices=2,ptx=1,ptx_seed=${seed}" $<TARGET_FILE:gpu_tests>
               kinds half_done disordered synchronised streams graphs abort devices)
endforeach()
gpu_ptx_test(gpu_mapping soak "ptx=1" $<TARGET_FILE:gpu_tests> mapping processes)
gpu_ptx_test(gpu_bench soak "ptx=1" $<TARGET_FILE:gpu_bench>)
gpu_ptx_test(gpu_bench_peer soak "devices=2,ptx=1" $<TARGET_FILE:gpu_bench> constants)
foreach(subject IN ITEMS cuda_glue cuda_stream)
  gpu_ptx_test(${subject} integration "ptx=1" $<TARGET_FILE:test_${subject}>)
endforeach()
foreach(subject IN ITEMS cuda_hang cuda_peers comm_graph)
  gpu_ptx_test(${subject} soak "ptx=1" $<TARGET_FILE:test_${subject}>)
endforeach()
foreach(subject IN ITEMS order registration refusal failure defects memory)
  gpu_ptx_test(${subject} soak "pageable_access=1,ptx=1" $<TARGET_FILE:test_${subject}>)
  set_property(TEST ptx.${subject} APPEND PROPERTY ENVIRONMENT "RONDO_TEST_BACKEND=cuda")
endforeach()
foreach(subject IN ITEMS cuda_work nccl_cuda)
  if(TARGET test_${subject})
    gpu_ptx_test(${subject} soak "ptx=1" $<TARGET_FILE:test_${subject}>)
  endif()
endforeach()
if(TARGET rondo-perf)
  gpu_ptx_test(perf soak "ptx=1" $<TARGET_FILE:rondo-perf> --backend cuda -t 2 -b 4 -e 20000 -f 70
               -n 2 -w 1 -c 2)
endif()
if(TARGET rondo-demo)
  gpu_ptx_test(demo soak "devices=2,peer_access=0,ptx=1" $<TARGET_FILE:rondo-demo> --backend=cuda
               --devices=2 --ranks=4 --collectives=4 --max=64K --iterations=5 --watchdog=1)
endif()
if(RONDO_HAVE_MESH AND RONDO_HAVE_UCX)
  gpu_ptx_test(processes_ucx soak "pageable_access=1,ptx=1" $<TARGET_FILE:test_processes>
               "*between_2*")
  gpu_ptx_test(processes_machines soak "pageable_access=1,ptx=1" $<TARGET_FILE:test_processes>
               machines 2 "*between_2*")
  set_property(TEST ptx.processes_ucx ptx.processes_machines APPEND
               PROPERTY ENVIRONMENT "RONDO_TEST_BACKEND=cuda")
  set_property(TEST ptx.processes_ucx APPEND PROPERTY ENVIRONMENT "RONDO_TRANSPORT=ucx")
endif()
if(RONDO_HAVE_MESH)
  gpu_ptx_test(fork soak "pageable_access=1,ptx=1" $<TARGET_FILE:test_fork> "*cuda*")
  gpu_ptx_test(processes_mapped soak "pageable_access=1,ptx=1" $<TARGET_FILE:test_processes>
               "*between_4*" "*pairs_meet_where*" "*transport*" "*refuses*" "*leaves_nothing*"
               "*killed*" "*abort*" "*deregisters*")
  gpu_ptx_test(processes_page_locked soak "pageable_access=1,sharing=0,ptx=1"
               $<TARGET_FILE:test_processes> "*between_2*" "*pairs_meet_where*" "*leaves*")
  gpu_ptx_test(processes_apart soak "pageable_access=1,devices=4,peer_access=2,ptx=1"
               $<TARGET_FILE:test_processes> "*between_2*" "*pairs_meet_where*")
  set_property(TEST ptx.processes_apart APPEND PROPERTY ENVIRONMENT "RONDO_TEST_DEVICES=4")
  foreach(subject IN ITEMS fork processes_mapped processes_page_locked processes_apart)
    set_property(TEST ptx.${subject} APPEND PROPERTY ENVIRONMENT "RONDO_TEST_BACKEND=cuda")
  endforeach()
endif()
