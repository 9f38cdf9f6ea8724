# The library of what needs CUDA. Files *.cu.cc are nvcc's and include CUDA's headers and
# TensorFlow-free ones of ours; the others are the C++ compiler's and include TensorFlow's
# headers, but call CUDA only through ours.
set(TENSORBOW_CUDA_SOURCES
  cc/arithmetic/gpu/update_kernels.cu.cc
  cc/synchroniser/gpu/sma_kernels.cu.cc
)
# Those without kernels: nvcc hands them to the C++ compiler, in a tenth of the time.
set(TENSORBOW_CUDA_HOST_SOURCES
  cc/device/gpu/cuda_event.cu.cc
  cc/device/gpu/cuda_graph.cu.cc
  cc/device/gpu/cuda_memory.cu.cc
  cc/device/gpu/cuda_stream.cu.cc
)
set(TENSORBOW_GPU_SOURCES
  cc/device/gpu/eigen_stream.cc
  cc/device/gpu/learner_gpu_device.cc
  cc/device/gpu/stream_group.cc
  cc/learner/gpu_backend.cc
  cc/reducer/nccl_reducer.cc
  cc/synchroniser/gpu/new_gpu_sma.cc
  tf_ops/kernels/fused_update_gpu_kernels.cc
)

# nvcc may be a script somewhere else: it knows where its toolkit is.
execute_process(COMMAND ${TENSORBOW_NVCC} -x cu --dryrun -c /dev/null
  OUTPUT_VARIABLE dry_run ERROR_VARIABLE dry_run COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "TOP=([^\n]+)" top_line "${dry_run}")
get_filename_component(TENSORBOW_CUDA_ROOT "${CMAKE_MATCH_1}" REALPATH)
find_library(TENSORBOW_CUDART libcudart_static.a REQUIRED NO_DEFAULT_PATH
  PATHS ${TENSORBOW_CUDA_ROOT} PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib)

execute_process(COMMAND ${TENSORBOW_NVCC} --list-gpu-code
  OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
set(gencode)
foreach(architecture ${TENSORBOW_CUDA_ARCHITECTURES})
  if(known MATCHES "sm_${architecture}\n")
    list(APPEND gencode -gencode=arch=compute_${architecture},code=sm_${architecture})
    set(newest ${architecture})
  endif()
endforeach()
if(NOT gencode)
  message(FATAL_ERROR "${TENSORBOW_NVCC} knows none of the compute capabilities "
    "${TENSORBOW_CUDA_ARCHITECTURES}; set TENSORBOW_CUDA_ARCHITECTURES")
endif()
list(APPEND gencode -gencode=arch=compute_${newest},code=compute_${newest})

set(cuda_objects)
foreach(source ${TENSORBOW_CUDA_SOURCES} ${TENSORBOW_CUDA_HOST_SOURCES})
  if(source IN_LIST TENSORBOW_CUDA_SOURCES)
    # -fmad=false: the same bits as on the CPU.
    set(language -x cu -fmad=false ${gencode})
  else()
    set(language -x c++)
  endif()
  set(object ${CMAKE_BINARY_DIR}/cuda/${source}.o)
  get_filename_component(directory ${object} DIRECTORY)
  file(MAKE_DIRECTORY ${directory})
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${TENSORBOW_NVCC} ${language} -std=c++17 -O3 -DNDEBUG
      -Xcompiler=-fPIC,-Wall,-Wextra,-Wno-unused-parameter,-ffp-contract=off
      -ccbin ${CMAKE_CXX_COMPILER} -I${PROJECT_SOURCE_DIR} -MD -MF ${object}.d
      -c ${PROJECT_SOURCE_DIR}/${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d
    COMMENT "Building CUDA object ${source}" VERBATIM)
  list(APPEND cuda_objects ${object})
endforeach()

add_library(tensorbow_gpu SHARED
  ${TENSORBOW_GPU_SOURCES} ${TENSORBOW_GPU_CORE_SOURCES} ${cuda_objects})
set_source_files_properties(${cuda_objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
target_compile_definitions(tensorbow_gpu PRIVATE GOOGLE_CUDA=1)
target_include_directories(tensorbow_gpu SYSTEM PRIVATE
  ${TENSORFLOW_INCLUDE_DIR}/third_party/gpus/cuda/include
  ${TENSORFLOW_INCLUDE_DIR}/external/cuda_cccl/libcudacxx/include)
get_filename_component(library_dir ${TENSORFLOW_LIBRARY} DIRECTORY)
target_link_libraries(tensorbow_gpu PRIVATE tensorbow_flags tensorbow
  ${library_dir}/libtensorflow_cc.so.2 ${TENSORFLOW_LIBRARY} ${TENSORBOW_CUDART}
  pthread dl rt)
target_link_options(tensorbow_gpu PRIVATE -Wl,--no-undefined -Wl,--exclude-libs,ALL)
# TensorFlow's headers are most of the work.
set_source_files_properties(${TENSORBOW_GPU_SOURCES} PROPERTIES UNITY_GROUP gpu)
compile_together(6 ${TENSORBOW_GPU_CORE_SOURCES})
set_target_properties(tensorbow_gpu PROPERTIES
  UNITY_BUILD ON UNITY_BUILD_MODE GROUP
  BUILD_WITH_INSTALL_RPATH TRUE INSTALL_RPATH "$ORIGIN")
install(TARGETS tensorbow_gpu LIBRARY DESTINATION tensorbow)
