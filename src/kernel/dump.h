/* The folder of MD_DUMP: files for people who look into what the library makes. NULL writes nothing. Thread-safe. */
#ifndef MD_KERNEL_DUMP_H
#define MD_KERNEL_DUMP_H

#include "base/log.h"

typedef struct md_dump md_dump;

/** Makes the folder with mode 0700 where it does not exist. What cannot be written is logged once, as a warning, and is
 * no failure. `log` must outlive it. OUT_OF_MEMORY. */
md_status md_dump_open(md_dump **out, const char *folder, const md_log *log);
void md_dump_close(md_dump **dump);
/** Writes <folder>/<name><ending>, which replaces an earlier one. In `name` a '/' becomes '.', and what should not be
 * in a file's name '_'. */
void md_dump_put(md_dump *dump, const char *name, const char *ending, const void *bytes, size_t n);

#endif
