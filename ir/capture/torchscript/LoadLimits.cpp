//===- LoadLimits.cpp - Time and memory that loading may take -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/torchscript/LoadLimits.h"

#include "support/Error.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fsdp;
using namespace fsdp::capture;

bool capture::triesFirst = true;

AddressLimit::AddressLimit(uint64_t more) {
  getrlimit(RLIMIT_AS, &before);
  // Its first number: all pages of the address space.
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlim_t now = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  rlimit limit = before;
  limit.rlim_cur = std::min<rlim_t>(before.rlim_cur, now + more);
  if (pages != 0)
    setrlimit(RLIMIT_AS, &limit);
}

AddressLimit::~AddressLimit() { setrlimit(RLIMIT_AS, &before); }

void capture::tryFirst(const std::string &what, unsigned seconds,
                       const std::function<void()> &work) {
  if (!triesFirst)
    return;
  pid_t child = fork();
  if (child < 0)
    throw Error(ErrorId::OutOfMemory,
                what + " cannot be loaded: no process can be made that tries");
  if (child == 0) {
    // Stack dumps are of no use to a person.
    int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    rlimit time = {seconds, seconds + 1}, none = {0, 0};
    setrlimit(RLIMIT_CPU, &time);
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGXCPU, SIG_DFL);
    try {
      work();
    } catch (...) {
      // This process will meet the same, and say it.
    }
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return;
  int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  bool isLate = signal == SIGXCPU || signal == SIGKILL;
  // What cannot be allocated ends the tool, by an exit status.
  throw Error(ErrorId::FileImplausible,
              what +
                  (isLate ? " takes more than " + std::to_string(seconds) +
                                " seconds to load"
                   : signal != 0
                       ? " ends LibTorch by signal " + std::to_string(signal)
                       : std::string(" asks for more memory than loading "
                                     "code of its size can need")) +
                  "; it is damaged or was made to do harm");
}
