/* A stage of a formula on an assumed GPU of compute capability 9.0: what a family is asked about. */
#ifndef MD_TESTS_FAMILY_CUDA_TARGET_FIXTURE_H
#define MD_TESTS_FAMILY_CUDA_TARGET_FIXTURE_H

#include "device/cuda/cuda.h"
#include "expr/formula.h"
#include "family/family.h"
#include "stage/stage.h"
#include "support/check.h"

typedef struct fixture {
    md_fx_formula *formula;
    md_st_program *program;
    md_dev_facts facts;
    md_fa_target target;
} fixture;

static inline void open_fixture(fixture *f, const char *text, md_dtype dtype)
{
    md_fx_options options = {.dtype = dtype};
    *f = (fixture){0};
    assert_ok(md_fx_formula_create(&f->formula, text, &options));
    assert_ok(md_st_program_create(&f->program, f->formula));
    assert_ok(md_dev_cuda_assume(&f->facts, 90));
    f->target = (md_fa_target){f->program, 0, &f->facts};
}

static inline const md_fa_family *family_of(const char *name)
{
    for (const md_fa_family *const *f = md_fa_families(MD_DEV_CUDA); *f; f++)
        if (strcmp((*f)->name, name) == 0)
            return *f;
    fail_msg("no family %s", name);
    return NULL;
}

static inline void close_fixture(fixture *f)
{
    md_st_program_destroy(&f->program);
    md_fx_formula_destroy(&f->formula);
}

#endif
