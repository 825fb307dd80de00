/* The host device: shared by the files of this folder. */
#ifndef MD_DEVICE_HOST_HOST_H
#define MD_DEVICE_HOST_HOST_H

#include "device/device.h"

#include <pthread.h>

enum { MD_DEV_HOST_ARGV = 96 };

/* The compiler's command line. Each compile fills the two paths into a copy of argv. */
typedef struct md_dev_host_command {
    char *words; /* owns the texts of argv */
    const char *argv[MD_DEV_HOST_ARGV];
    int32_t i_source, i_binary; /* positions of the paths */
    int32_t limit_ms;
} md_dev_host_command;

typedef struct md_dev_host {
    md_dev base; /* first: a md_dev * of this device is a md_dev_host * */
    md_dev_host_command command;
    char *cc;
    bool is_foreign; /* its kernels need instructions that this processor lacks: they are built, and never run */
    /* held while libraries are opened and closed, so that no fork happens inside the loader */
    pthread_mutex_t lock_of_loader;
    pthread_mutex_t lock_of_retries; /* held while a compiler runs again that had too few processes */
    bool lacks_room; /* the last retries did not help; under that lock */
} md_dev_host;

md_status md_dev_host_open(md_dev **out, const md_dev_options *options);

/** Kernels are compiled with these options from now on. Before the first one. */
md_status md_dev_host_set_flags(md_dev *dev, const char *flags, int32_t vector_bytes);

/* compile.c */
/** Splits `cc` at spaces and adds `flags`. INVALID_ARGUMENT if cc is empty or too long. */
md_status md_dev_host_command_init(md_dev_host_command *out, const char *cc, const char *flags, int32_t limit_ms);
/** The library's options with those of an instruction set. INTERNAL if they are too long. */
md_status md_dev_host_flags(char out[512], const char *isa);
void md_dev_host_command_finish(md_dev_host_command *command);
/** Asks the compiler for its version ("gcc 12.2.0"). NOT_FOUND, TIMEOUT, COMPILE if it does not work. */
md_status md_dev_host_compiler_version(char out[128], const md_dev_host *host);
md_status md_dev_host_compile(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source);

/* load.c */
/** Loads a shared object from memory. The caller closes *library with dlclose. */
md_status md_dev_host_load(void **library, md_kn_host_entry *entry, const void *binary, size_t n_bytes,
                           const char *name, char *const *environment);

/* rates.c */
enum { MD_DEV_HOST_RATES = 5 };
typedef struct md_dev_host_rates {
    double rate[MD_DEV_HOST_RATES]; /* memory, lane, cache, gflops, launch, as in md_dev_facts */
    double library_us[MD_DEV_LIBRARY_SHAPES];
    double spread; /* rates_spread */
    int64_t at; /* rates_at */
} md_dev_host_rates;
/** Measures the rates of facts (memory, cache, gflops, launch), in some 100 ms; an estimate takes a tenth of it, and is
 * no sure one. */
void md_dev_host_measure(md_dev_facts *facts, md_pool *pool, bool is_estimate);
/** Fills library_us, in some ms. Zeros where the best two tries do not agree, as under load: libraries of many threads
 * suffer most from it. Leaves it without a library. */
void md_dev_host_measure_library(md_dev_facts *facts);
/** The rates that MD_RATES gives; false if it gives none. */
bool md_dev_host_given_rates(md_dev_host_rates *out);
/** Sets the rates of a host device, and logs what it is: `known` ones, else those of MD_RATES, else those that the
 * process measured before, else measured now, or estimated. Before any kernel is selected. */
void md_dev_host_set_rates(md_dev *dev, const md_dev_host_rates *known, bool estimates);
/** Measures the rates of a host device now, as long as that takes; the device keeps those that it has. */
void md_dev_host_measure_again(md_dev_host_rates *out, const md_dev *dev);
void md_dev_host_get_rates(md_dev_host_rates *out, const md_dev *dev);
/** Sure rates that this process measured before for such a device; NULL: there are none. `is_foreign`: kernels are for
 * another processor. Thread-safe. */
const md_dev_host_rates *md_dev_host_find_measured(const md_dev_facts *facts, bool is_foreign);
/** Keeps rates, if they are sure, for md_dev_host_find_measured. Thread-safe. */
void md_dev_host_note_measured(const md_dev_host_rates *rates, const md_dev_facts *facts, bool is_foreign);
/** A number that machines of other processors or memory do not have: a store may come from a machine of the same name.
 * Equal after a restart. */
int32_t md_dev_host_machine(void);
/** True if a machine can have such rates. */
bool md_dev_host_are_possible(const md_dev_host_rates *rates);
/** True if these rates were measured without much load and not long ago. */
bool md_dev_host_are_sure(const md_dev_host_rates *rates);
/** Rates that were measured again: the better of both, since load only makes them slower; of old ones the new, as soon
 * as they are sure, since the machine may be another. */
md_dev_host_rates md_dev_host_join_rates(const md_dev_host_rates *old, const md_dev_host_rates *now);

#endif
