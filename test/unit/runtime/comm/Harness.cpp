//===- Harness.cpp - Run the ranks of a back end --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;

void fsdp::test::require(bool condition, const std::string &what) {
  if (!condition)
    throw std::runtime_error(what);
}

template <typename Body>
static std::string report(Body body) {
  try {
    body();
    return "";
  } catch (const Error &error) {
    return std::string(getErrorInfo(error.id()).id) + " " + error.what();
  } catch (const std::exception &error) {
    return error.what();
  }
}

static std::vector<std::string> runThreads(const RankSetup &setup,
                                           const Scenario &scenario) {
  FabricOptions options;
  options.worldSize = setup.worldSize;
  options.deadline = setup.deadline;
  auto fabrics = findBackend(setup.backend).connect(options);
  std::vector<std::string> outcomes(fabrics.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < fabrics.size(); ++rank)
    threads.emplace_back([&, rank] {
      outcomes[rank] = report([&] { scenario(*fabrics[rank]); });
    });
  for (std::thread &thread : threads)
    thread.join();
  return outcomes;
}

/// A socket at an address, or -1.
static int bindSocket(int family, const void *address, socklen_t length) {
  int handle = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle >= 0 &&
      bind(handle, static_cast<const sockaddr *>(address), length) == 0)
    return handle;
  close(handle);
  return -1;
}

/// A port on which nobody listens, below those of outgoing connections. A name
/// that this process keeps to its end tells other tests of this machine that it
/// is taken (test/end_to_end/ranks.py).
static int findFreePort() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(15000, 29999);
  for (int tries = 0; tries < 1000; ++tries) {
    int port = ports(random);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::string text = "fsdp-test-port-" + std::to_string(port);
    text.copy(name.sun_path + 1, text.size());
    auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                         text.size());
    int taken = bindSocket(AF_UNIX, &name, length);
    if (taken < 0)
      continue;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (int probe = bindSocket(AF_INET, &address, sizeof(address));
        probe >= 0) {
      close(probe);
      return port;
    }
    close(taken);
  }
  throw std::runtime_error("no free port was found");
}

static std::vector<std::string> runProcesses(const RankSetup &setup,
                                             const Scenario &scenario) {
  FabricOptions options;
  options.worldSize = setup.worldSize;
  options.deadline = setup.deadline;
  char folder[] = "/tmp/fsdp-comm-XXXXXX";
  require(mkdtemp(folder), "no temporary folder can be made");
  std::string path = std::string(folder) + "/store";
  if (setup.meetInFile)
    options.rendezvous = "file://" + path;
  std::string port = std::to_string(findFreePort());

  struct Child {
    pid_t process = -1;
    int output = -1;
  };
  std::vector<Child> children(setup.worldSize);
  for (int rank = 0; rank < setup.worldSize; ++rank) {
    if (std::ranges::count(setup.absent, rank))
      continue;
    int ends[2];
    require(pipe(ends) == 0, "no pipe can be made");
    pid_t process = fork();
    require(process >= 0, "no process can be started");
    if (process == 0) {
      close(ends[0]);
      setenv("RANK", std::to_string(rank).c_str(), 1);
      setenv("WORLD_SIZE", std::to_string(setup.worldSize).c_str(), 1);
      setenv("MASTER_ADDR", "127.0.0.1", 1);
      setenv("MASTER_PORT", port.c_str(), 1);
      std::string text = report([&] {
        if (setup.connect) {
          scenario(*setup.connect(options));
          return;
        }
        auto fabrics = findBackend(setup.backend).connect(options);
        scenario(*fabrics[0]);
      });
      bool written = write(ends[1], text.data(), text.size()) ==
                     static_cast<ssize_t>(text.size());
      _exit(written ? 0 : 1);
    }
    close(ends[1]);
    children[rank] = {process, ends[0]};
  }

  std::vector<std::string> outcomes(setup.worldSize);
  for (int rank = 0; rank < setup.worldSize; ++rank) {
    Child &child = children[rank];
    if (child.process < 0)
      continue;
    char buffer[4096];
    ssize_t count;
    while ((count = read(child.output, buffer, sizeof(buffer))) > 0)
      outcomes[rank].append(buffer, count);
    close(child.output);
    int status = 0;
    waitpid(child.process, &status, 0);
    if (WIFSIGNALED(status))
      outcomes[rank] = "killed by signal " + std::to_string(WTERMSIG(status));
    else if (WEXITSTATUS(status))
      outcomes[rank] = "exit status " + std::to_string(WEXITSTATUS(status));
  }
  unlink(path.c_str());
  rmdir(folder);
  return outcomes;
}

std::vector<std::string> fsdp::test::runRanks(const RankSetup &setup,
                                              const Scenario &scenario) {
  return !setup.connect && findBackend(setup.backend).inProcess
             ? runThreads(setup, scenario)
             : runProcesses(setup, scenario);
}
