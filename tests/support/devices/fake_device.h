/* A scripted device for tests: "compiles" by counting, fails on words in the text, runs nothing or a host function.
 *
 * A text that holds "FAIL_COMPILE" does not compile, "FAIL_LOAD" does not load, "FAIL_LAUNCH" does not launch; a
 * text that holds "SLOW_US=n" takes n us a launch; one that holds "HANG" never ends behind an async_device. Link
 * fake_device.c (fake_device_sources in tests/meson.build's manner). */
#ifndef MD_TESTS_SUPPORT_DEVICES_FAKE_DEVICE_H
#define MD_TESTS_SUPPORT_DEVICES_FAKE_DEVICE_H

#include "device/device.h"

typedef struct fake_device {
    md_dev base; /* first */
    _Atomic int32_t compile_ms; /* how long a compile takes */
    _Atomic(const char *) held; /* texts that hold this are not done with compiling before it is NULL */
    _Atomic bool disk_is_full; /* no text compiles */
    _Atomic int32_t n_compiled, n_loaded, n_unloaded, n_launched;
    _Atomic int32_t n_compiling, most_compiling; /* at once */
    /* map 0: of tensor 1; map 1: of a copy, 64 bytes into the workspace; word 0 is the address */
    _Atomic int32_t n_maps_made, n_maps_moved;
    bool maps_tensors; /* the second map is the output's, not one of the workspace */
    bool maps_are_known; /* callers may store addresses in maps themselves */
    void (*on_launch)(const char *text, const md_kn_word *params, int32_t n); /* runs a text's kernel; may be NULL */
    bool owns_clock; /* now_ns is the device's clock: time passes only as tests and slow texts say; else the real one */
    _Atomic uint64_t now_ns;
    const char *_Atomic refused; /* texts with this do not launch; NULL: all do */
} fake_device;

/** Facts of a machine with two lanes; rates are round numbers. */
void fake_device_init(fake_device *out, md_pool *pool, const md_log *log);
/** Lets time pass on the device's clock. */
void fake_device_spend(fake_device *fake, uint64_t ns);

#endif
