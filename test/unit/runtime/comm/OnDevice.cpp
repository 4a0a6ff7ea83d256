//===- OnDevice.cpp - Host memory, moved by way of a GPU ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "OnDevice.h"
#include "Harness.h"
#include "runtime/comm/nccl/Nccl.h"
#include "runtime/cuda/Streams.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <map>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace fsdp;
using namespace fsdp::test;

int fsdp::test::countGpus() {
  pid_t process = fork();
  if (process == 0)
    _exit(countCudaDevices());
  int status = 0;
  if (process < 0 || waitpid(process, &status, 0) != process ||
      !WIFEXITED(status))
    return 0;
  return WEXITSTATUS(status);
}

static void check(cudaError_t status) {
  require(status == cudaSuccess, cudaGetErrorString(status));
}

namespace {

class HostCommunicator final : public Communicator {
public:
  HostCommunicator(std::unique_ptr<Communicator> inner, Fabric &fabric,
                   std::shared_ptr<Streams> streams)
      : inner(std::move(inner)), fabric(fabric), streams(std::move(streams)) {}

  int rank() const override { return inner->rank(); }
  int size() const override { return inner->size(); }
  size_t stagingBytes() const override { return inner->stagingBytes(); }

  Ticket start(const Transfer &transfer) override {
    std::vector<Copy> copies;
    Members moved;
    for (const Member &member : transfer.members)
      moved.push_back(move(copies, member, transfer.facts()));
    Ticket ticket = inner->start({transfer.label, moved, transfer.combination});
    return started(ticket, std::move(copies));
  }

  void wait(Ticket ticket) override {
    inner->wait(ticket);
    auto copies = inFlight.extract(ticket);
    for (const Copy &copy : copies.mapped())
      check(cudaMemcpyAsync(copy.host, copy.device, copy.bytes,
                            cudaMemcpyDeviceToHost, streams->compute()));
    EventHandle end = streams->createEvent();
    streams->record(end, streams->compute());
    while (!streams->synchronize(end, Streams::Clock::now() +
                                          std::chrono::milliseconds(100)))
      fabric.check();
    streams->destroyEvent(end);
    for (const Copy &copy : copies.mapped())
      check(cudaFree(copy.device));
  }

private:
  struct Copy {
    char *host, *device;
    size_t bytes;
  };
  Member move(std::vector<Copy> &copies, Member member,
              const CollectiveFacts &facts) {
    size_t bytes = member.bytes(), all = bytes * size();
    auto *from = const_cast<void *>(member.from);
    if (facts.whole == Whole::both) {
      member.from = toDevice(copies, from, all);
      member.to = toDevice(copies, member.to, all);
    } else if (facts.whole == Whole::got) {
      member.to = toDevice(copies, member.to, all);
      member.from = within(copies, from, bytes);
    } else if (facts.whole == Whole::given) {
      member.from = toDevice(copies, from, all);
      member.to = within(copies, member.to, bytes);
    } else {
      member.from = toDevice(copies, from, bytes);
      member.to = facts.isInPlace ? const_cast<void *>(member.from)
                                  : toDevice(copies, member.to, bytes);
    }
    return member;
  }

  char *toDevice(std::vector<Copy> &copies, void *host, size_t bytes) {
    Copy copy{static_cast<char *>(host), nullptr, bytes};
    if (!bytes)
      return nullptr;
    check(cudaMalloc(reinterpret_cast<void **>(&copy.device), bytes));
    check(cudaMemcpyAsync(copy.device, host, bytes, cudaMemcpyHostToDevice,
                          streams->compute()));
    copies.push_back(copy);
    return copy.device;
  }

  /// Where `host` is on the device: within what was copied last, or on its own.
  char *within(std::vector<Copy> &copies, const void *host, size_t bytes) {
    auto *begin = static_cast<char *>(const_cast<void *>(host));
    if (!copies.empty() && begin >= copies.back().host &&
        begin + bytes <= copies.back().host + copies.back().bytes)
      return copies.back().device + (begin - copies.back().host);
    return toDevice(copies, begin, bytes);
  }

  Ticket started(Ticket ticket, std::vector<Copy> copies) {
    inFlight.emplace(ticket, std::move(copies));
    return ticket;
  }

  std::unique_ptr<Communicator> inner;
  Fabric &fabric;
  const std::shared_ptr<Streams> streams;
  std::map<Ticket, std::vector<Copy>> inFlight;
};

class HostFabric final : public Fabric {
public:
  HostFabric(std::unique_ptr<Fabric> inner, std::shared_ptr<Streams> streams)
      : Fabric(inner->meeting()), inner(std::move(inner)),
        streams(std::move(streams)) {}

  std::unique_ptr<Communicator>
  createCommunicator(const GroupRanks &group) override {
    return std::make_unique<HostCommunicator>(inner->createCommunicator(group),
                                              *inner, streams);
  }
  void check() override { inner->check(); }
  void endTransfers(const std::string &reason) noexcept override {
    inner->endTransfers(reason);
  }

private:
  std::unique_ptr<Fabric> inner;
  const std::shared_ptr<Streams> streams;
};

} // namespace

std::unique_ptr<Fabric>
fsdp::test::useHostMemory(std::unique_ptr<Fabric> fabric,
                          std::shared_ptr<Streams> streams) {
  return std::make_unique<HostFabric>(std::move(fabric), std::move(streams));
}

std::unique_ptr<Fabric>
fsdp::test::connectNcclOnGpu(const FabricOptions &given) {
  FabricOptions options = given;
  options.streams = makeCudaStreams(std::atoi(std::getenv("RANK")));
  options.streams->use();
  return useHostMemory(connectNcclFabric(options), options.streams);
}
