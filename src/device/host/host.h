/* The host device inside: the CPU, its C compiler and the thread pool. */
#ifndef MD_DEVICE_HOST_HOST_H
#define MD_DEVICE_HOST_HOST_H

#include "device/device.h"

#include <pthread.h>

enum { MD_DEV_HOST_ARGV = 96 };

/* The compiler's command line, made once. The two paths are filled in per compile, in a copy of argv. */
typedef struct md_dev_host_command {
    char *words; /* owns the texts of argv */
    const char *argv[MD_DEV_HOST_ARGV];
    int32_t i_source, i_binary; /* places of the paths */
    int32_t limit_ms;
} md_dev_host_command;

typedef struct md_dev_host {
    md_dev base; /* first: a md_dev * of this device is a md_dev_host * */
    md_dev_host_command command;
    /* held while libraries are opened and closed: a child must not find the loader at work */
    pthread_mutex_t lock_of_loader;
} md_dev_host;

md_status md_dev_host_open(md_dev **out, const md_dev_options *options);

/* host_compile.c */
/** Splits `cc` at spaces and adds our options; writes the options to facts->flags. INVALID_ARGUMENT for an empty or
 * endless cc. */
md_status md_dev_host_command_init(md_dev_host_command *out, md_dev_facts *facts, const char *cc, const char *isa,
                                   int32_t limit_ms);
void md_dev_host_command_finish(md_dev_host_command *command);
/** Asks for the compiler's version ("gcc 12.2.0"). NOT_FOUND, TIMEOUT, COMPILE where it is no working compiler. */
md_status md_dev_host_compiler_version(char out[128], const md_dev_host_command *command);
md_status md_dev_host_compile(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source);

/* host_load.c */
/** Loads a shared object from memory. *library is for dlclose. */
md_status md_dev_host_load(void **library, md_kn_host_entry *entry, const void *binary, size_t n_bytes,
                           const char *name);

/* host_rates.c */
/** Fills the rates of facts (memory, cache, gflops, launch) by measuring; a few ms. */
void md_dev_host_measure(md_dev_facts *facts, md_pool *pool);

#endif
