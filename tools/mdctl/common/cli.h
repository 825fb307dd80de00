/* What the commands of mdctl share: options, exits, output. Public headers only. */
#ifndef MDCTL_CLI_H
#define MDCTL_CLI_H

#include <md/md.h>
#include <stdbool.h>
#include <sys/types.h>

/* The commands, as bits. */
enum {
    CLI_DEMO = 1 << 0,
    CLI_RUN = 1 << 1,
    CLI_EXPLAIN = 1 << 2,
    CLI_SOURCE = 1 << 3,
    CLI_BENCH = 1 << 4,
    CLI_HINTS = 1 << 5,
    CLI_REGRET = 1 << 6,
    CLI_TUNE = 1 << 7,
    CLI_STORE = 1 << 8,
    CLI_OPS = 1 << 9,
    CLI_INFO = 1 << 10,
    CLI_CHECK = 1 << 11,
    CLI_BUNDLE = 1 << 12,
    CLI_COMBO = 1 << 13,
    CLI_CHOICES = 1 << 14,
    CLI_REPORT = 1 << 15,
    CLI_ALL = (1 << 16) - 1
};

/* Exit status of mdctl. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

typedef struct cli_options {
    md_context_options context;
    md_op_options op;
    const char *sizes; /* of the call */
    const char *variant, *trace, *output; /* source, demo, bench */
    const char *modes; /* regret */
    int part, n_parts; /* regret, bench, tune: the part-th of n_parts; 1, 1 where it is not given */
    bool has_part; /* it is given */
    int32_t space; /* regret: shapes that are searched */
    bool rivals; /* regret: with every variant's time */
    const char *board; /* bench: one that is built in */
    bool compares; /* bench */
    bool resume; /* bench: go on with the output of an earlier run */
    uint64_t seed;
    int32_t stage, repeat, count, step, last; /* all but stage: 0 where not given */
    bool by_calls; /* hints */
    md_tune rigor;
    md_tune_strategy strategy; /* tune; those below, too */
    double budget; /* ms */
    int32_t builds, patience; /* patience: ms */
    bool worker;
    const char *plot, *from_stats, *indices, *exclude, *wisdom;
    bool plans;
    bool tunes; /* combo; those below, too */
    const char *field_order, *field_limits;
    const char *arch; /* bundle */
    bool c_source;
    bool all_directions, off_hints;
    int32_t limit_mb; /* store; 0 where not given */
    bool json, help, quick;
    int argc; /* the command's own line, from its name on */
    char **argv;
    int n; /* arguments left */
    char **arg;
} cli_options;

/** Parses the options of a command (a bit); false after saying what was wrong on stderr. */
bool cli_parse(cli_options *out, unsigned command, int argc, char **argv);
/** Prints the options of a command. `name` is left out of their meanings; "": of none. */
void cli_print_options(FILE *file, unsigned command, const char *name);
/** Row i of that table: the name without dashes, the value ("" for a flag), the meaning. False beyond the end. */
bool cli_option(int i, const char **name, const char **value, const char **meaning);
/** Makes the context of the command: Ctrl-C says what was kept in its store. */
md_status cli_open_context(md_context **out, const cli_options *o);
void cli_close_context(md_context **context);
/** From now on Ctrl-C says what was kept and ends with status 130. Call before any thread is made. */
void cli_watch_interrupts(void);
/** Passes interrupts on to a helper process, whose end is the caller's, too; 0: to none. */
void cli_interrupts_to(pid_t process);
/** "mdctl: message" on stderr, then the status for exit. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** The library's last error, as cli_fail. */
int cli_fail_md(void);
/** The log of every command's context: warnings and errors on stderr, more where MD_LOG asks for it. */
void cli_log(void *user, md_log_level level, const char *message);
/** True if an error was logged: the library could not do something that no function reports (MD_STATS, MD_TRACE). */
bool cli_has_failed(void);
/** A md_write_fn into a FILE (user). */
int cli_write(void *user, const char *text, size_t n_bytes);
/** A JSON string with its quotes; valid whatever the text is. */
void cli_json_text(FILE *file, const char *text);
/** The same without quotes, for a part of a string. */
void cli_json_escape(FILE *file, const char *text, size_t n_bytes);
/** Closes a file of --output (NULL: there is none): `status`, or a failure that names the path. */
int cli_close_output(FILE *file, const char *path, int status);
/** Whether colour and progress may be shown on this stream. */
bool cli_is_terminal(FILE *file);
/** Bold where colour may be shown on stdout: cli_bold() text cli_plain(). */
const char *cli_bold(void);
const char *cli_plain(void);
/** The colour of a time over the best one's where it may be shown on stdout: green, yellow from 1.1, red from 1.5. */
const char *cli_shade(double ratio);
/** One line of progress on stderr, rewritten in place; shown only on a terminal, and not for the first second
 * (MDCTL_PROGRESS_MS). NULL clears it. */
void cli_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Says how much of a task is done; lines of progress then end with the time that is left. parts 0: no task. */
void cli_progress_part(double done, double parts);
double cli_now_us(void);

typedef int (*cli_command)(const cli_options *options);
int cli_info(const cli_options *o);
int cli_ops(const cli_options *o);
int cli_run(const cli_options *o);
int cli_check(const cli_options *o);
int cli_explain(const cli_options *o);
int cli_choices(const cli_options *o);
int cli_source(const cli_options *o);
int cli_bench(const cli_options *o);
int cli_hints(const cli_options *o);
int cli_regret(const cli_options *o);
int cli_demo(const cli_options *o);
int cli_tune(const cli_options *o);
int cli_store(const cli_options *o);
int cli_bundle(const cli_options *o);
int cli_combo(const cli_options *o);
int cli_report(const cli_options *o);

#endif
