//===- Exceptions.cpp - Any exception as an error with an id --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Exceptions.h"

#include <filesystem>
#include <ios>
#include <new>
#include <system_error>

using namespace fsdp;

Error fsdp::toError(const std::exception_ptr &exception, const std::string &who,
                    ErrorId otherwise) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error &error) {
    return error;
  } catch (const std::bad_alloc &) {
    return Error(ErrorId::OutOfMemory,
                 who + "no memory is left; use more ranks, a smaller batch, or "
                       "a machine with more memory");
  } catch (const std::filesystem::filesystem_error &error) {
    return Error(ErrorId::FileNotReadable, who + error.what());
  } catch (const std::ios_base::failure &error) {
    return Error(ErrorId::FileNotReadable, who + error.what());
  } catch (const std::system_error &error) {
    // What pthread_create says where memory or the number of threads is used
    // up.
    if (error.code() == std::errc::resource_unavailable_try_again ||
        error.code() == std::errc::not_enough_memory)
      return Error(ErrorId::OutOfMemory,
                   who + "a thread cannot be started (" + error.what() +
                       "): memory or the number of threads is used up; start "
                       "fewer ranks here, or raise the limit (ulimit -a)");
    return Error(otherwise, who + error.what());
  } catch (const std::exception &error) {
    return Error(otherwise, who + error.what());
  } catch (...) {
    return Error(otherwise, who + "an exception of an unknown type");
  }
}
