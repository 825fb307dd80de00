/* The agreement of ranks, over the ops of a context. */
#include "api/context.h"
#include "base/status.h"
#include "stats/agree.h"

static md_status check(const md_context *context, const md_exchange *x)
{
    if (!context || !x || !x->gather)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL",
                       !context ? "context"
                       : !x     ? "exchange"
                                : "exchange's function gather");
    if (x->n_ranks < 1 || x->rank < 0 || x->rank >= x->n_ranks || !(x->seconds >= 0.0))
        return md_fail(MD_INVALID_ARGUMENT, "exchange: rank %d of %d, %g s", (int)x->rank, (int)x->n_ranks, x->seconds);
    return MD_OK;
}

md_status md_agree(md_agreement *out, md_context *context, const md_exchange *exchange)
{
    char library[64], environment[128];
    md_agreement found = {0};
    md_api_ops held = {0};
    MD_TRY(check(context, exchange));
    const md_dev_facts *f = &context->dev->facts;
    snprintf(environment, sizeof environment, "driver %d, runtime %d, nvrtc %d, %.60s", (int)f->driver, (int)f->runtime,
             (int)f->nvrtc, f->compiler[0] ? f->compiler : "no compiler");
    md_status s = md_api_hold_ops(&held, context);
    if (s == MD_OK)
        s = md_ss_agree(&found, &(md_ss_agree_request){.op = held.op,
                                                       .n_ops = held.n,
                                                       .library = md_api_library_name(library),
                                                       .device = f->name,
                                                       .environment = environment,
                                                       .exchange = exchange});
    md_api_release_ops(&held, context);
    if (out)
        *out = found;
    return s;
}
