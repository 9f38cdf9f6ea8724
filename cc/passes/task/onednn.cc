#include "cc/passes/task/onednn.h"

#include <cstdlib>
#include <memory>

#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/cpu_info.h"
#include "tensorflow/core/util/port.h"

namespace tensorflow {

// TensorFlow's pass, declared in core/common_runtime/mkl_layout_pass.h, which is empty
// for code that is not compiled with oneDNN itself. Null if TensorFlow has none.
extern bool RunMklLayoutRewritePass(std::unique_ptr<Graph>* graph)
    __attribute__((weak));

}  // namespace tensorflow

namespace tensorbow {

namespace tf = ::tensorflow;

void UseOneDnn(TaskGraph* task) {
  if (tf::RunMklLayoutRewritePass == nullptr || tf::IsMklEnabled() ||
      std::getenv("TF_ENABLE_ONEDNN_OPTS") != nullptr ||
      !tf::port::TestCPUFeature(tf::port::CPUFeature::AVX2)) {
    return;
  }
  for (TaskPart& part : task->parts) {
    if (part.device->device_type() == tf::DEVICE_CPU) {
      tf::RunMklLayoutRewritePass(&part.graph);
    }
  }
}

}  // namespace tensorbow
