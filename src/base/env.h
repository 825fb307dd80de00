/* The environment: read once a context, in this one file, from one table that also prints the documentation. */
#ifndef MD_BASE_ENV_H
#define MD_BASE_ENV_H
#include <md/md.h>
#include <stdbool.h>

typedef struct md_env {
    const char *device; /* texts are NULL where unset; they live as long as the process environment is unchanged */
    const char *hints;
    const char *pin;
    const char *cc;
    const char *stats;
    const char *trace;
    const char *cache_dir; /* NULL where unset; "" where nothing is to be kept */
    const char *system_path;
    md_select select; /* *_DEFAULT where unset */
    md_metric metric;
    md_persistent persistent;
    md_numeric numeric;
    int32_t threads; /* 0 where unset */
    int64_t max_shapes;
    md_log_level log; /* 0 where unset */
    int32_t verify;
    int32_t sync;
    int32_t stats_indices;
    md_tune tune; /* *_DEFAULT where unset */
    int64_t tune_budget_ms; /* 0 where unset */
    char unknown[64]; /* a variable that starts with MD_ but is none of ours, "" where there is none: worth a warning */
} md_env;

/** Reads and checks every MD_ variable; one set to "" counts as unset, but for MD_CACHE_DIR. A bad value is
 * MD_INVALID_ARGUMENT naming the variable, the value and what is allowed; hints, pin and device are checked by who
 * parses them. Uses secure_getenv. */
md_status md_env_read(md_env *out);
/** Where users' programs keep what can be made again: XDG_CACHE_HOME, else .cache below HOME, and our name; false
 * where neither is set. */
bool md_env_cache_folder(char out[4096]);
/** TMPDIR, else /tmp. */
const char *md_env_temp_root(void);
/** PATH, else the system's own folders. */
const char *md_env_path(void);
/** A variable of somebody else ("CUDA_HOME"); NULL where unset or empty. */
const char *md_env_foreign(const char *name);
/** Row i of the table; false beyond the end. */
int md_env_describe(int32_t i, const char **name, const char **values, const char **meaning);
#endif
