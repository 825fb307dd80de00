/* A machine calibrates itself: what an earlier process found is taken over; what is missing, old or uncertain is found
 * in the background, for later ones. In one process picks follow the same constants from its first op to its last. */
#include "api/context.h"
#include "base/json.h"
#include "base/status.h"
#include "base/task/jobs.h"
#include "device/host/host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* BUDGET_MS: of all measurements. DELAY_MS: a program that ends before times no kernels. */
enum { BUDGET_MS = 2000, DELAY_MS = 1000, HOUR_S = 3600, DAY_S = 24 * HOUR_S, MOST_DAYS = 30 };

/* A GPU's constants were fitted to two chips, and its facts are the same at each start: only where it is asked for. */
static bool is_wanted(const md_context *c)
{
    int64_t given[MD_ENV_RATES];
    const md_dev_facts *f = &c->dev->facts;
    const bool is_default = f->kind == MD_DEV_HOST && c->env.calibrate != MD_CALIBRATE_OFF;
    return (is_default || c->env.calibrate > MD_CALIBRATE_OFF) && f->kind != MD_DEV_SIM &&
           c->policy.numeric < MD_NUMERIC_DETERMINISTIC && !c->policy.agrees && !c->dev->is_assumed &&
           c->bundles.n == 0 && !(f->kind == MD_DEV_HOST && md_env_rates(given));
}

bool md_api_calibrates_later(const md_context *c)
{
    return is_wanted(c) && c->env.calibrate != MD_CALIBRATE_WAIT && md_sr_is_writable(c->store);
}

/* By what machines of one name may have otherwise. */
static void name_entry(char out[40], const md_context *c)
{
    const md_dev_facts *f = &c->dev->facts;
    snprintf(out, 40, "calibrated %016" PRIx64,
             f->kind == MD_DEV_HOST ? (uint64_t)md_dev_host_machine() : (uint64_t)f->global_bytes);
}

static bool find(md_tn_calibration *out, const md_context *c)
{
    char key[40];
    void *text = NULL;
    size_t n = 0;
    name_entry(key, c);
    if (md_sr_find_at(&text, &n, c->store, 0, MD_API_FACTS, key) != MD_OK)
        return false;
    const bool is_good = md_tn_calibration_read(out, c->dev->facts.kind, text, n);
    free(text);
    if (!is_good)
        md_sr_discard(c->store, MD_API_FACTS, key);
    return is_good;
}

static void put(const md_context *c, const md_tn_calibration *found)
{
    char key[40];
    md_strbuf text = {0};
    name_entry(key, c);
    md_tn_calibration_print(&text, found);
    if (!text.failed)
        (void)md_sr_put(c->store, MD_API_FACTS, key, md_strbuf_text(&text), text.size);
    md_strbuf_finish(&text);
}

/* What other work disturbed is measured again after an hour. */
static bool is_lasting(const md_tn_calibration *found)
{
    const int64_t age = (int64_t)time(NULL) - found->date, most = found->is_sure ? (int64_t)MOST_DAYS * DAY_S : HOUR_S;
    return found->is_whole && age > -DAY_S && age < most;
}

static bool is_over(void *user)
{
    const md_context *c = user;
    return atomic_load_explicit(&c->calibration.is_closing, memory_order_relaxed) != 0 || md_jobs_are_awaited();
}

/* One that was interrupted is gone on with. */
static bool calibrate(md_tn_calibration *out, md_context *c)
{
    const md_tn_calibration *before = &c->calibration.found;
    const md_tn_calibrate_options options = {.budget_ms = BUDGET_MS,
                                             .is_over = is_over,
                                             .user = c,
                                             .lock = &c->runtime.lock_of_tuning,
                                             .before = before->n_probes > 0 && !before->is_whole ? before : NULL};
    if (md_tn_calibrate(out, c->builder, &options) != MD_OK || out->n == 0)
        return false;
    put(c, out);
    return true;
}

static void measure_rates(md_context *c)
{
    md_api_measure_rates(c);
    c->calibration.lacks_rates = false;
}

static void run_later(void *user)
{
    enum { STEP_NS = 10000000 };
    md_context *c = user;
    md_tn_calibration found;
    for (int64_t i = 0; i < (int64_t)DELAY_MS * 1000000 / STEP_NS && !is_over(c); i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    if (!is_over(c) && c->calibration.lacks_rates)
        measure_rates(c); /* constants are corrected beside rates that later processes have, too: by the next one */
    else if (!is_over(c))
        (void)calibrate(&found, c);
    atomic_store_explicit(&c->calibration.is_running, 0, memory_order_release);
}

static void begin(md_context *c)
{
    md_jobs_rest_at_exit(); /* of a program that leaves its contexts alive */
    atomic_store(&c->calibration.is_running, 1);
    if (!md_tn_stored_submit(c->stored, run_later, c))
        atomic_store(&c->calibration.is_running, 0);
}

static void calibrate_now(md_context *c)
{
    md_tn_calibration now;
    if (calibrate(&now, c))
        c->calibration.found = now;
}

void md_api_calibrate(md_context *c)
{
    md_tn_calibration *found = &c->calibration.found;
    if (!is_wanted(c))
        return;
    c->calibration.is_on = true;
    c->calibration.owner = getpid();
    const bool lacks_factors = !(find(found, c) && is_lasting(found)) && c->dev->facts.can_compile;
    if (lacks_factors && c->env.calibrate == MD_CALIBRATE_WAIT)
        calibrate_now(c);
    if (md_tn_calibration_factors(&c->calibration.factors, &c->calibration.found))
        c->dev->facts.factors = &c->calibration.factors;
    if (c->calibration.lacks_rates || (lacks_factors && md_api_calibrates_later(c)))
        begin(c);
}

void md_api_end_calibration(md_context *c)
{
    enum { STEP_NS = 1000000 };
    atomic_store(&c->calibration.is_closing, 1);
    while (md_tn_stored_is_own(c->stored) && atomic_load_explicit(&c->calibration.is_running, memory_order_acquire))
        (void)nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    /* of a program that ended before: where all are short, each would estimate anew */
    if (!atomic_load(&c->calibration.is_running) && c->calibration.lacks_rates && c->calibration.owner == getpid())
        measure_rates(c);
}

/* "gemm 1.52, scan 0.61": what the model's times are multiplied by. */
static void print_factors(md_strbuf *out, const md_dev_factors *f)
{
    for (int32_t i = 0; i < f->n; i++)
        md_strbuf_printf(out, "%s%s %.2f", i ? ", " : "", ((const md_fa_family *)f->family[i])->name, f->factor[i]);
    if (f->n == 0)
        md_strbuf_add(out, "none");
}

void md_api_add_calibration(json_t *j, const md_context *c)
{
    const md_tn_calibration *found = &c->calibration.found;
    char date[32] = "";
    struct tm utc;
    const time_t at = (time_t)found->date;
    md_strbuf text = {0};
    if (!c->calibration.is_on)
        return;
    if (found->n == 0) {
        json_object_set_new(j, "calibrated", json_string("not yet"));
        return;
    }
    if (gmtime_r(&at, &utc))
        (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    print_factors(&text, &c->calibration.factors);
    json_object_set_new(j, "calibrated", json_string(date));
    json_object_set_new(j, "calibration",
                        json_string(!found->is_whole    ? "an estimate: it was interrupted"
                                    : !found->is_sure   ? "an estimate: other work or heat disturbed it"
                                    : is_lasting(found) ? "measured"
                                                        : "an estimate: it is old"));
    json_object_set_new(j, "factors", md_json_text(text.failed ? "" : md_strbuf_text(&text)));
    md_strbuf_finish(&text);
}
