//===- Harness.cpp - Run the ranks of a back end --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
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

/// A port that was free a moment ago.
static int findFreePort() {
  int handle = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto *generic = reinterpret_cast<sockaddr *>(&address);
  bool found = handle >= 0 && bind(handle, generic, length) == 0 &&
               getsockname(handle, generic, &length) == 0;
  close(handle);
  require(found, "no free port was found");
  return ntohs(address.sin_port);
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
