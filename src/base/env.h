/* The environment variables of the library. One table reads them, once a context, and documents them. */
#ifndef MD_BASE_ENV_H
#define MD_BASE_ENV_H
#include <md/md.h>
#include <stdbool.h>

/* A value of MD_LOG that is no level. */
#define MD_LOG_NONE ((md_log_level)(MD_LOG_DEBUG + 1))

typedef enum md_stats_signal { MD_STATS_SIGNAL_HUP = 1, MD_STATS_SIGNAL_USR1, MD_STATS_SIGNAL_USR2 } md_stats_signal;

typedef enum md_env_idle_tune { MD_IDLE_TUNE_OFF = 1, MD_IDLE_TUNE_ON } md_env_idle_tune;

typedef enum md_env_calibrate { MD_CALIBRATE_OFF = 1, MD_CALIBRATE_ON, MD_CALIBRATE_WAIT } md_env_calibrate;

typedef enum md_env_cpu { MD_ENV_X86_64 = 1, MD_ENV_AVX2, MD_ENV_AVX512 } md_env_cpu;

typedef enum md_env_axes { MD_AXES_AUTO = 1, MD_AXES_WRITTEN, MD_AXES_BOTH } md_env_axes;

enum { MD_ENV_RATES = 5 };

typedef struct md_env {
    const char *device; /* texts are NULL if unset, and valid while the process environment is unchanged */
    const char *hints;
    const char *pin;
    const char *cc;
    const char *stats;
    const char *trace;
    const char *dump;
    const char *cache_dir; /* NULL if unset; "": keep nothing */
    const char *system_path;
    const char *bundle;
    const char *combo_field_order;
    const char *combo_field_limits;
    int32_t bundle_compile;
    md_select select; /* *_DEFAULT if unset */
    md_metric metric;
    md_persistent persistent;
    md_numeric numeric;
    md_env_axes axes; /* 0 if unset */
    int32_t threads; /* 0 if unset */
    md_env_cpu cpu; /* 0 if unset; md_cpu_detect asks md_env_widest */
    int64_t rates[MD_ENV_RATES]; /* 0 if unset; the host device asks md_env_rates */
    int64_t max_shapes;
    int32_t max_variants; /* 0 if unset */
    md_log_level log; /* 0 if unset; MD_LOG_NONE: no messages at all */
    int32_t verify;
    int32_t sync;
    md_env_idle_tune idle_tune; /* 0 if unset */
    md_env_calibrate calibrate; /* 0 if unset */
    int32_t agree;
    int32_t runtime_launch;
    int32_t stats_indices;
    md_stats_signal stats_signal; /* 0 if unset */
    md_tune tune; /* *_DEFAULT if unset */
    int64_t tune_budget_ms; /* 0 if unset */
    char unknown[64]; /* a set variable that starts with MD_ but is not in the table; "" if there is none */
} md_env;

/** A copy of this process's environment, for threads that read it while the program may change its own (setenv moves
 * what others read). Wherever an environment is taken, NULL is this process's at that moment; in a privileged
 * process (md_env_is_privileged) any is read as an empty one. free() ends it. NULL: no memory. */
char **md_env_copy(void);
/** Reads and checks every MD_ variable. A variable set to "" counts as unset, except MD_CACHE_DIR. Texts stay where
 * they are in the environment. INVALID_ARGUMENT names the variable, its value and what is allowed. Hints, pin and
 * device are checked where they are parsed. */
md_status md_env_read(md_env *out, char *const *environment);
/** The user's cache folder: multidispatch below XDG_CACHE_HOME, else below HOME/.cache. False if neither is set. */
bool md_env_cache_folder(char out[4096], char *const *environment);
/** The user's runtime folder (XDG_RUNTIME_DIR): local to the machine, for locks. False if there is none. */
bool md_env_runtime_folder(char out[4096], char *const *environment);
/** MD_CPU alone, for md_cpu_detect; 0 if it is unset or wrong (md_env_read refuses it). */
md_env_cpu md_env_widest(void);
/** MD_RATES alone, for the host device; false if it is unset or wrong. */
bool md_env_rates(int64_t out[MD_ENV_RATES]);
/** True in a process with rights that its caller may lack: a set-user-ID or set-group-ID program, or one with
 * capabilities. Its caller chose its environment, so none of it is believed, and no child process gets any of it. */
bool md_env_is_privileged(void);
/** PATH, else the standard folders of the system; only folders of the system in a privileged process. */
const char *md_env_path(char *const *environment);
/** A variable that is not the library's ("CUDA_HOME"); NULL if unset or empty. */
const char *md_env_foreign(char *const *environment, const char *name);

enum { MD_ENV_CHILD_OWN = 3 };
/** The environment of a child process. */
typedef struct md_env_child {
    char **variables; /* ends with NULL; those that are not in `own` lie in the environment it was made of */
    char *own[MD_ENV_CHILD_OWN];
    const char *path; /* its PATH, in `own` */
} md_env_child;
/** An environment, with messages in English and a PATH in any case; `temp`: its TMPDIR (NULL: as it is). In a
 * privileged process nothing but these. OUT_OF_MEMORY. */
md_status md_env_child_make(md_env_child *out, char *const *environment, const char *temp);
void md_env_child_finish(md_env_child *child);
/** Row i of the table; false beyond the end. */
int md_env_describe(int32_t i, const char **name, const char **values, const char **meaning);
#endif
