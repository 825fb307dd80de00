/* Reads the MD_ variables. This is the only file that reads the environment. */
#include "base/env.h"

#include "base/status.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

typedef enum variable_kind { TEXT, FOLDER, WORD, INT32, INT64, RATES } variable_kind;

typedef struct variable {
    const char *name;
    const char *values; /* WORD: "a|b|c", in the order of the enum, whose first value is `low` */
    const char *meaning;
    variable_kind kind;
    size_t offset; /* of the field in md_env */
    int64_t low, high; /* of numbers: the least and the greatest */
} variable;

#define AT(field) offsetof(md_env, field)

static const variable variables[] = {
    {"MD_DEVICE", "auto|host|cuda|cuda:N", "where contexts run that do not say it; auto: the GPU if there is one", TEXT,
     AT(device), 0, 0},
    {"MD_HINTS", "list of sizes, points or grids",
     "sizes at which kernels are generated; default 1,16,64,256,1024,4096", TEXT, AT(hints), 0, 0},
    {"MD_SELECT", "distance|model|measure|hybrid",
     "how a kernel is picked for a new shape; default model, with races in moments without calls (MD_IDLE_TUNE); where "
     "it is set to model there are none",
     WORD, AT(select), MD_SELECT_DISTANCE, 0},
    {"MD_METRIC", "log2|inductor", "which distance MD_SELECT=distance uses; default log2", WORD, AT(metric),
     MD_METRIC_LOG2, 0},
    {"MD_PIN", "op[.stage]:variant[;...]", "runs this variant and no other", TEXT, AT(pin), 0, 0},
    {"MD_PERSISTENT", "auto|only|never", "whether reductions keep their row on chip; default auto", WORD,
     AT(persistent), MD_PERSISTENT_AUTO, 0},
    {"MD_NUMERIC", "fast|deterministic|batch_invariant", "which bits ops may give; default fast", WORD, AT(numeric),
     MD_NUMERIC_FAST, 0},
    {"MD_AXES", "auto|written|both",
     "whether a product may also run with the axes of its operands moved, as planes of channels become pixels: auto, "
     "the "
     "default: where a family of kernels takes it only then; written: never; both: wherever axes may be moved",
     WORD, AT(axes), MD_AXES_AUTO, 0},
    {"MD_MAX_SHAPES", "1 to 16777216", "shapes remembered per op; default 16384", INT64, AT(max_shapes), 1, 1 << 24},
    {"MD_THREADS", "1 to 1024", "threads of the host device; default one per available CPU", INT32, AT(threads), 1,
     1024},
    {"MD_CPU", "x86-64|avx2|avx512",
     "kernels of the host use no wider instructions than these; default: all that the processor has", WORD, AT(cpu),
     MD_ENV_X86_64, 0},
    {"MD_RATES", "five whole numbers of at least 1, separated by commas",
     "rates of the host device, which are measured and stored otherwise: MB/s of a copy by all threads and by one, "
     "MB/s of one in its cache, MFLOP/s of all, and ns of a launch; for tests, and for equal choices on unequal "
     "machines",
     RATES, AT(rates), 1, 1000000000},
    {"MD_CC", "a compiler", "C compiler of the host device; default cc", TEXT, AT(cc), 0, 0},
    {"MD_STATS", "path ending in .json or .csv, else a table; - for stdout",
     "statistics, written when the context is destroyed, at exit, and at SIGTERM where the program does nothing at it; "
     "%p is the process id; a second context of the process writes path.2.json, and so on",
     TEXT, AT(stats), 0, 0},
    {"MD_STATS_SIGNAL", "HUP|USR1|USR2",
     "the statistics of MD_STATS are written at this signal, too; needs a program that does nothing at it", WORD,
     AT(stats_signal), MD_STATS_SIGNAL_HUP, 0},
    {"MD_STATS_INDICES", "0 to 1048576",
     "so many values of each index tensor are kept in statistics, for mdctl tune --from-stats; default 0", INT32,
     AT(stats_indices), 0, 1 << 20},
    {"MD_MAX_VARIANTS", "1 to 48",
     "variants of each stage of an op that does not say it; default 32. 1: no dispatch, one variant serves all shapes "
     "for which it is correct, and another is built where it is not",
     INT32, AT(max_variants), 1, 48},
    {"MD_DUMP", "a folder, made with mode 0700",
     "formulas, generated sources and binaries are left there, named by op, stage and variant", TEXT, AT(dump), 0, 0},
    {"MD_TRACE", "path", "timeline of builds, measurements and choices, for Perfetto or chrome://tracing", TEXT,
     AT(trace), 0, 0},
    {"MD_LOG", "error|warn|info|debug|none",
     "messages to stderr up to this level; default warn; debug tells stages, pools and picks", WORD, AT(log),
     MD_LOG_ERROR, 0},
    {"MD_VERIFY", "0 or 1", "1: full checks at every call, warm ones too", INT32, AT(verify), 0, 1},
    {"MD_IDLE_TUNE", "0|1",
     "0: nothing is timed unless it is asked for; 1: ops that choose by the model time its best six for shapes that "
     "are called often, in moments without calls, however long they take, and may go on with other last bits; default: "
     "where MD_SELECT is not set, kernels of at most 30 us are timed so, and a pick changes once, to equal bits",
     WORD, AT(idle_tune), MD_IDLE_TUNE_OFF, 0},
    {"MD_CALIBRATE", "off|on|wait",
     "on: the host's rates are measured, and then a few kernels timed, in the background of a machine's first "
     "processes, two seconds each; until then rates are estimates, and later processes multiply the cost model's times "
     "of families by what they are off; wait: creating a context waits for that; off: no factors, and rates are "
     "measured at once; default: on for the host device, off for GPUs, with MD_RATES, where ranks agree and where bits "
     "must be deterministic",
     WORD, AT(calibrate), MD_CALIBRATE_OFF, 0},
    {"MD_AGREE", "0 or 1",
     "1: the kernel of a shape that was met changes only when ranks agree (md_agree): what is measured meanwhile is "
     "recorded; default 0",
     INT32, AT(agree), 0, 1},
    {"MD_SYNC", "0 or 1",
     "1: a new shape waits for the best kernel instead of being served by what is ready; for tests", INT32, AT(sync), 0,
     1},
    {"MD_RUNTIME_LAUNCH", "0 or 1",
     "1: the CUDA Runtime launches all GPU kernels, as where several GPUs are visible; for tests", INT32,
     AT(runtime_launch), 0, 1},
    {"MD_CACHE_DIR", "a folder",
     "where compiled kernels and tuned results are kept; empty: nowhere; default multidispatch in the XDG cache folder",
     FOLDER, AT(cache_dir), 0, 0},
    {"MD_BUNDLE", "files separated by :",
     "bundles of kernels that were compiled ahead of time (mdctl bundle): neither a compiler nor NVRTC is used", TEXT,
     AT(bundle), 0, 0},
    {"MD_BUNDLE_COMPILE", "0 or 1", "1: what no bundle of MD_BUNDLE has is compiled; default 0: it is an error", INT32,
     AT(bundle_compile), 0, 1},
    {"MD_SYSTEM_PATH", "folders separated by :",
     "stores that are only read, after the user's; also files of wisdom, *.jsonl", TEXT, AT(system_path), 0, 0},
    {"MD_TUNE", "off|estimate|measure|exhaustive",
     "how kernels' configs are found when an op is made; default estimate (a model); measure: by building and timing "
     "some",
     WORD, AT(tune), MD_TUNE_OFF, 0},
    {"MD_TUNE_BUDGET_MS", "1 to 86400000", "time that tuning one op may take; default 1500", INT64, AT(tune_budget_ms),
     1, 86400000},
    {"MD_COMBO_FIELD_ORDER", "names like X1 Y1 threads",
     "which fields of a combo's kernels md_combo_tune tries first; default: blocks of the heaviest kernel", TEXT,
     AT(combo_field_order), 0, 0},
    {"MD_COMBO_FIELD_LIMITS", "limits like X0=64 Y=32",
     "the most that md_combo_tune makes of these fields; default: the next power of two of an item's size", TEXT,
     AT(combo_field_limits), 0, 0},
};

/* The position of `value` in "a|b|c", or -1. */
static int64_t find_word(const char *words, const char *value)
{
    size_t n = strlen(value);
    for (int64_t i = 0;; i++) {
        size_t length = strcspn(words, "|");
        if (length == n && memcmp(words, value, n) == 0)
            return i;
        if (!words[length])
            return -1;
        words += length + 1;
    }
}

static bool parse_word(int64_t *out, const variable *v, const char *value)
{
    const int64_t place = find_word(v->values, value);
    *out = v->low + place;
    return place >= 0;
}

static int32_t count_numbers(const variable *v)
{
    return v->kind == RATES ? MD_ENV_RATES : 1;
}

/* Numbers separated by commas. */
static bool parse_numbers(int64_t *out, const variable *v, const char *value)
{
    bool is_good = true;
    const int32_t n = count_numbers(v);
    for (int32_t i = 0; i < n && is_good; i++) {
        char *end = NULL;
        errno = 0;
        const long long number = strtoll(value, &end, 10);
        is_good = errno == 0 && end != value && *end == (i + 1 < n ? ',' : 0) && number >= v->low && number <= v->high;
        out[i] = number;
        value = end + 1;
    }
    return is_good;
}

/* WORD fields are enums and int32_t, both as wide as int here. */
_Static_assert(sizeof(md_select) == sizeof(int32_t) && sizeof(md_log_level) == sizeof(int32_t), "enums are 32 bits");

static md_status set_field(md_env *env, const variable *v, const char *value)
{
    void *field = (char *)env + v->offset;
    if (v->kind == TEXT || v->kind == FOLDER) {
        memcpy(field, &value, sizeof value);
        return MD_OK;
    }
    int64_t number[MD_ENV_RATES] = {0};
    if (!(v->kind == WORD ? parse_word : parse_numbers)(number, v, value))
        return md_fail(MD_INVALID_ARGUMENT, "%s=%.200s is not allowed; it takes %s", v->name, value, v->values);
    const int32_t narrow = (int32_t)number[0];
    if (v->kind == INT64 || v->kind == RATES)
        memcpy(field, number, (size_t)count_numbers(v) * sizeof number[0]);
    else
        memcpy(field, &narrow, sizeof narrow);
    return MD_OK;
}

char **md_env_copy(void)
{
    size_t n = 0, n_bytes = 0;
    for (; environ && environ[n]; n++)
        n_bytes += strlen(environ[n]) + 1;
    char **out = malloc((n + 1) * sizeof *out + n_bytes), *text = out ? (char *)(out + n + 1) : NULL;
    for (size_t i = 0; out && i < n; i++) {
        out[i] = text;
        text = stpcpy(text, environ[i]) + 1;
    }
    if (out)
        out[n] = NULL;
    return out;
}

/* NULL if it is not set. */
static const char *value_in(char *const *environment, const char *name)
{
    const size_t n = strlen(name);
    if (!environment)
        return secure_getenv(name);
    for (char *const *p = environment; *p && !md_env_is_privileged(); p++)
        if (strncmp(*p, name, n) == 0 && (*p)[n] == '=')
            return *p + n + 1;
    return NULL;
}

static bool is_known(const char *assignment)
{
    size_t n = strcspn(assignment, "=");
    for (int32_t i = 0; i < MD_COUNT(variables); i++) {
        if (strncmp(variables[i].name, assignment, n) == 0 && variables[i].name[n] == 0)
            return true;
    }
    return false;
}

/* MD_TEST_: variables of the library's tests, some of which look at what is logged. */
static void find_unknown(md_env *env, char *const *environment)
{
    for (char *const *p = environment ? environment : environ; p && *p; p++) {
        if (strncmp(*p, "MD_", 3) == 0 && strncmp(*p, "MD_TEST_", 8) != 0 && !is_known(*p)) {
            snprintf(env->unknown, sizeof env->unknown, "%.*s", (int)strcspn(*p, "="), *p);
            return;
        }
    }
}

md_status md_env_read(md_env *out, char *const *environment)
{
    md_env env = {0};
    for (int32_t i = 0; i < MD_COUNT(variables); i++) {
        const char *value = value_in(environment, variables[i].name);
        if (value && (value[0] || variables[i].kind == FOLDER))
            MD_TRY(set_field(&env, &variables[i], value));
    }
    find_unknown(&env, environment);
    *out = env;
    return MD_OK;
}

bool md_env_cache_folder(char out[4096], char *const *environment)
{
    const char *cache = md_env_foreign(environment, "XDG_CACHE_HOME"), *home = md_env_foreign(environment, "HOME");
    int n = -1;
    if (cache && cache[0] == '/') /* the XDG specification ignores relative paths */
        n = snprintf(out, 4096, "%s/multidispatch", cache);
    else if (home && home[0] == '/')
        n = snprintf(out, 4096, "%s/.cache/multidispatch", home);
    return n > 0 && n < 4096;
}

bool md_env_runtime_folder(char out[4096], char *const *environment)
{
    const char *folder = md_env_foreign(environment, "XDG_RUNTIME_DIR");
    const int n = folder && folder[0] == '/' ? snprintf(out, 4096, "%s", folder) : -1;
    return n > 0 && n < 4096;
}

bool md_env_is_privileged(void)
{
    return getauxval(AT_SECURE) != 0;
}

const char *md_env_path(char *const *environment)
{
    const char *path = value_in(environment, "PATH");
    if (md_env_is_privileged())
        return "/usr/bin:/bin";
    return path && path[0] ? path : "/usr/local/bin:/usr/bin:/bin";
}

const char *md_env_foreign(char *const *environment, const char *name)
{
    const char *value = value_in(environment, name);
    return value && value[0] ? value : NULL;
}

/* ---- The environment of a child process */

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* What a child gets of an environment. Two variables let GCC write into files of the application's build. */
static bool is_passed_on(const char *text, bool has_temp)
{
    static const char *const never[] = {"LC_ALL=", "PATH=", "DEPENDENCIES_OUTPUT=", "SUNPRO_DEPENDENCIES="};
    for (int32_t i = 0; i < MD_COUNT(never); i++)
        if (begins_with(text, never[i]))
            return false;
    return !has_temp || !begins_with(text, "TMPDIR=");
}

static char *joined(const char *name, const char *value)
{
    const size_t n = strlen(name) + strlen(value) + 1;
    char *out = malloc(n);
    if (out)
        snprintf(out, n, "%s%s", name, value);
    return out;
}

md_status md_env_child_make(md_env_child *out, char *const *environment, const char *temp)
{
    size_t n = 0, to = 0;
    char *const *from = environment ? environment : environ;
    const bool passes_on = !md_env_is_privileged();
    while (passes_on && from && from[n])
        n++;
    *out = (md_env_child){.variables = malloc((n + MD_ENV_CHILD_OWN + 1) * sizeof(char *))};
    out->own[0] = strdup("LC_ALL=C"); /* the library reads the compiler's messages */
    out->own[1] = joined("PATH=", md_env_path(environment));
    out->own[2] = temp ? joined("TMPDIR=", temp) : NULL;
    if (!out->variables || !out->own[0] || !out->own[1] || (temp && !out->own[2])) {
        md_env_child_finish(out);
        return md_fail_memory();
    }
    out->path = strchr(out->own[1], '=') + 1;
    for (size_t i = 0; i < n; i++)
        if (is_passed_on(from[i], temp != NULL))
            out->variables[to++] = from[i];
    for (int32_t i = 0; i < MD_ENV_CHILD_OWN && out->own[i]; i++)
        out->variables[to++] = out->own[i];
    out->variables[to] = NULL;
    return MD_OK;
}

void md_env_child_finish(md_env_child *child)
{
    for (int32_t i = 0; i < MD_ENV_CHILD_OWN; i++)
        free(child->own[i]);
    free(child->variables);
    *child = (md_env_child){0};
}

/* Sets the field at `offset` alone; false if its variable is unset or wrong. */
static bool read_one(md_env *env, size_t offset)
{
    for (int32_t i = 0; i < MD_COUNT(variables); i++) {
        const char *value = variables[i].offset == offset ? secure_getenv(variables[i].name) : NULL;
        if (value && value[0])
            return set_field(env, &variables[i], value) == MD_OK;
    }
    return false;
}

md_env_cpu md_env_widest(void)
{
    md_env env = {0};
    return read_one(&env, AT(cpu)) ? env.cpu : 0;
}

bool md_env_rates(int64_t out[MD_ENV_RATES])
{
    md_env env = {0};
    const bool are_given = read_one(&env, AT(rates));
    memcpy(out, env.rates, sizeof env.rates);
    return are_given;
}

int md_env_describe(int32_t i, const char **name, const char **values, const char **meaning)
{
    bool is_there = i >= 0 && i < MD_COUNT(variables);
    *name = is_there ? variables[i].name : NULL;
    *values = is_there ? variables[i].values : NULL;
    *meaning = is_there ? variables[i].meaning : NULL;
    return is_there;
}
