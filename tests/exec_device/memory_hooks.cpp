// SPDX-License-Identifier: Apache-2.0
// The functions that the compiler calls at every load and store of sources compiled with -fsanitize=thread. The thread
// sanitizer's library is not linked: these replace it, and tell the command that is running what it touches.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "exec/device/deferred/trace.hpp"

using dovetail::exec::deferred::note_read;
using dovetail::exec::deferred::note_write;

// Names are the compiler's.
// NOLINTBEGIN(bugprone-reserved-identifier, cert-dcl37-c, cert-dcl51-cpp, readability-identifier-naming)
extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}

void __tsan_read1(void* at) {
  note_read(at, 1);
}
void __tsan_read2(void* at) {
  note_read(at, 2);
}
void __tsan_read4(void* at) {
  note_read(at, 4);
}
void __tsan_read8(void* at) {
  note_read(at, 8);
}
void __tsan_read16(void* at) {
  note_read(at, 16);
}
void __tsan_write1(void* at) {
  note_write(at, 1);
}
void __tsan_write2(void* at) {
  note_write(at, 2);
}
void __tsan_write4(void* at) {
  note_write(at, 4);
}
void __tsan_write8(void* at) {
  note_write(at, 8);
}
void __tsan_write16(void* at) {
  note_write(at, 16);
}
void __tsan_unaligned_read2(void* at) {
  note_read(at, 2);
}
void __tsan_unaligned_read4(void* at) {
  note_read(at, 4);
}
void __tsan_unaligned_read8(void* at) {
  note_read(at, 8);
}
void __tsan_unaligned_read16(void* at) {
  note_read(at, 16);
}
void __tsan_unaligned_write2(void* at) {
  note_write(at, 2);
}
void __tsan_unaligned_write4(void* at) {
  note_write(at, 4);
}
void __tsan_unaligned_write8(void* at) {
  note_write(at, 8);
}
void __tsan_unaligned_write16(void* at) {
  note_write(at, 16);
}
void __tsan_read_range(void* at, std::size_t bytes) {
  note_read(at, static_cast<std::int64_t>(bytes));
}
void __tsan_write_range(void* at, std::size_t bytes) {
  note_write(at, static_cast<std::int64_t>(bytes));
}

// Atomics are those of the host's own bookkeeping. No kernel has any on the host.
std::uint8_t __tsan_atomic8_load(const volatile std::uint8_t* at, int) {
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
std::uint32_t __tsan_atomic32_load(const volatile std::uint32_t* at, int) {
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
std::uint64_t __tsan_atomic64_load(const volatile std::uint64_t* at, int) {
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
void __tsan_atomic8_store(volatile std::uint8_t* at, std::uint8_t value, int) {
  __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}
void __tsan_atomic32_store(volatile std::uint32_t* at, std::uint32_t value, int) {
  __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}
void __tsan_atomic64_store(volatile std::uint64_t* at, std::uint64_t value, int) {
  __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}
std::uint32_t __tsan_atomic32_fetch_add(volatile std::uint32_t* at, std::uint32_t value, int) {
  return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}
std::uint64_t __tsan_atomic64_fetch_add(volatile std::uint64_t* at, std::uint64_t value, int) {
  return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}

// The linker gives calls of these from all of the program to the hooks; a compiler makes them of copies in kernels too.
void* __real_memcpy(void* to, const void* from, std::size_t bytes);
void* __real_memmove(void* to, const void* from, std::size_t bytes);
void* __real_memset(void* to, int byte, std::size_t bytes);

void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  note_read(from, static_cast<std::int64_t>(bytes));
  note_write(to, static_cast<std::int64_t>(bytes));
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, const void* from, std::size_t bytes) {
  note_read(from, static_cast<std::int64_t>(bytes));
  note_write(to, static_cast<std::int64_t>(bytes));
  return __real_memmove(to, from, bytes);
}
void* __wrap_memset(void* to, int byte, std::size_t bytes) {
  note_write(to, static_cast<std::int64_t>(bytes));
  return __real_memset(to, byte, bytes);
}
}
// NOLINTEND(bugprone-reserved-identifier, cert-dcl37-c, cert-dcl51-cpp, readability-identifier-naming)
