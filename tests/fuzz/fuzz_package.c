/* Fuzz target of the plans of packages: any text is refused with a reason, or becomes a sequence, whose ops have no
 * kernels here. Of each text its beginnings are tried too. Built as fuzz_op.c, with -Isrc. */
#include "fuzz/text.h"
#include "package/package.h"

enum { MOST_BYTES = 1 << 16, CUTS = 24 };

static char zeros[MOST_BYTES];

static md_status begin(void *user, int32_t i, const void **bytes, size_t *n)
{
    const md_package *p = user;
    const json_int_t wanted = json_integer_value(json_array_get(json_object_get(p->plan, "weights"), (size_t)i));
    *bytes = zeros;
    *n = (size_t)wanted;
    return wanted >= 0 && wanted <= MOST_BYTES ? MD_OK : MD_CORRUPT;
}

static void end(void *user)
{
    (void)user;
}

/* That there is no compiler is said for each context. */
static void say_nothing(void *user, md_log_level level, const char *message)
{
    (void)user;
    (void)level;
    (void)message;
}

static void check(const char *text)
{
    const md_context_options host = {
        .log = say_nothing, .device = "host", .threads = 1, .cache_dir = "", .cc = "/nonexistent", .hints = "16"};
    md_package p = {0};
    if (md_pk_read(&p, text) != MD_OK) {
        require(md_last_error()[0] != 0, "no reason", text);
    } else {
        require(md_context_create(&p.context, &host) == MD_OK, "no context", text);
        if (md_pk_build(&p, &(md_pk_weights){begin, end, &p}) != MD_OK)
            require(md_last_error()[0] != 0, "no reason", text);
    }
    md_pk_finish(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = text_of(data, size);
    check(text);
    for (size_t i = CUTS; i > 0; i--) { /* shorter and shorter */
        text[size * i / (CUTS + 1)] = 0;
        check(text);
    }
    free(text);
    return 0;
}
