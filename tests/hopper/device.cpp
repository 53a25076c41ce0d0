// SPDX-License-Identifier: Apache-2.0
#include "tests/hopper/device.h"

#include <cstdlib>
#include <stdexcept>

#include "jit/cuda_api.h"
#include "jit/error.h"
#include "tests/drivers/gpu_calls.h"

namespace quern::hopper_tests {
namespace {

constexpr std::size_t kAlignment = 256;

// The GPU, its context current in this thread for ever. A kernel that faults breaks both for the process.
struct Gpu {
  std::shared_ptr<jit::Driver> driver = jit::open_cuda(0, {});
  jit::cuda::Api api = jit::cuda::open_api({});
  jit::test::GpuCalls calls{api.path};
  Gpu() {
    jit::cuda::Context context = nullptr;
    if (api.primary_retain(&context, 0) != 0 || api.context_push(context) != 0)
      throw std::runtime_error("no CUDA context");
  }
  void check(int code, const char* what) const {
    if (code != 0) throw std::runtime_error(std::string(what) + ": " + api.text(code));
  }
};
Gpu& gpu() {
  static Gpu one;
  return one;
}
jit::test::DevicePointer address(const void* pointer) { return reinterpret_cast<jit::test::DevicePointer>(pointer); }

// A failed launch, as the driver tells it.
std::string text_of(jit::Driver& driver, int code) {
  std::string text;
  try {
    driver.fail(code, "launch");
  } catch (const Error& error) {
    text = error.text();
  }
  return text;
}

}  // namespace

bool on_cuda() {
  static const bool cuda = [] {
    const char* given = std::getenv("QUERN_TEST_DEVICE");
    const std::string name = given != nullptr ? given : "host";
    if (name != "host" && name != "cuda")
      throw std::runtime_error("QUERN_TEST_DEVICE is " + name + "; allowed: host, cuda");
    return name == "cuda";
  }();
  return cuda;
}

Machine::Machine(Schedule schedule) {
  if (on_cuda()) {
    const int code = gpu().calls.stream_synchronize(nullptr);
    if (code != 0) {
      throw std::runtime_error("an earlier test broke the GPU for this process (" + gpu().api.text(code) +
                               "); ./dev device-test gives each test a process of its own");
    }
    driver_ = gpu().driver;
  } else {
    driver_ = jit::open_host({.threads = 2, .seeded = schedule.seeded, .seed = schedule.seed});
  }
}

std::string Machine::synchronize() {
  if (!on_cuda()) return {};
  const int code = gpu().calls.stream_synchronize(nullptr);
  return code == 0 ? "" : gpu().api.text(code);
}

Memory::Memory(std::size_t bytes, unsigned char fill) : bytes_(bytes) {
  const std::vector<unsigned char> filled(bytes, fill);
  if (on_cuda()) {
    jit::test::DevicePointer pointer = 0;
    gpu().check(gpu().calls.memory_allocate(&pointer, bytes), "cuMemAlloc");
    data_ = reinterpret_cast<unsigned char*>(pointer);
  } else {
    data_ =
        static_cast<unsigned char*>(std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
    if (data_ == nullptr) throw std::bad_alloc();
  }
  write(filled.data(), bytes);
}

Memory::~Memory() {
  if (on_cuda()) {
    gpu().calls.memory_free(address(data_));
  } else {
    std::free(data_);
  }
}

void Memory::write(const void* from, std::size_t bytes) {
  if (on_cuda()) {
    gpu().check(gpu().calls.copy_in(address(data_), from, bytes), "cuMemcpyHtoD");
  } else {
    std::memcpy(data_, from, bytes);
  }
}

void Memory::read(void* to) const {
  if (on_cuda()) {
    gpu().check(gpu().calls.copy_out(to, address(data_), bytes_), "cuMemcpyDtoH");
  } else {
    std::memcpy(to, data_, bytes_);
  }
}

std::string run(Machine& machine, const std::string& file, const Defines& defines, const Shape& shape,
                std::vector<void*> args) {
  const jit::Compiled& compiled = compile(machine.target(), file, defines);
  jit::Driver& driver = machine.driver();
  jit::Loaded loaded = driver.load(compiled.image, "k", shape.shared_bytes);
  jit::Launch launch;
  launch.grid[0] = shape.blocks;
  launch.block[0] = static_cast<std::uint32_t>(loaded.max_threads);
  launch.cluster[0] = shape.cluster;
  launch.shared_bytes = shape.shared_bytes;
  const int code = driver.launch(loaded, launch, args.data(), args.size());
  std::string text = code == 0 ? machine.synchronize() : text_of(driver, code);
  driver.unload(loaded);
  return text;
}

std::size_t row_stride(std::uint64_t extent, std::size_t element) { return (extent * element + 15) / 16 * 16; }

jit::TensorMapDesc dense(int data_type, std::size_t element, const void* address,
                         const std::vector<std::uint64_t>& extent, const std::vector<std::uint32_t>& box, int swizzle) {
  jit::TensorMapDesc desc;
  desc.data_type = data_type;
  desc.rank = static_cast<std::uint32_t>(extent.size());
  desc.address = const_cast<void*>(address);
  std::uint64_t stride = 0;
  for (std::size_t d = 0; d < extent.size(); ++d) {
    desc.extent[d] = extent[d];
    desc.box[d] = box[d];
    stride = d == 0 ? row_stride(extent[0], element) : stride * extent[d];
    if (d + 1 < extent.size()) desc.stride[d] = stride;
  }
  desc.swizzle = swizzle;
  return desc;
}

jit::TensorMap encoded(Machine& machine, const jit::TensorMapDesc& desc) {
  jit::TensorMap map{};
  machine.driver().encode_tensor_map(desc, map);
  return map;
}

}  // namespace quern::hopper_tests
