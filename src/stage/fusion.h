/* A program being planned: shared by the steps of planning. */
#ifndef MD_STAGE_FUSION_H
#define MD_STAGE_FUSION_H

#include "stage/form.h"

typedef struct md_st_group {
    int32_t n;
    int32_t stmt[MD_ST_MAX_STORES];
    md_st_stage stage;
} md_st_group;

typedef struct md_st_draft {
    md_st_maker *maker;
    const md_fx_formula *formula;
    uint32_t forced; /* temporaries that must be stored */
    uint32_t reduced; /* inlined temporaries with reductions or scans of their own */
    bool is_live[MD_FX_MAX_STMTS]; /* writes memory */
    md_st_item item[MD_FX_MAX_STMTS];
    int32_t n_groups;
    md_st_group group[MD_FX_MAX_STMTS];
} md_st_draft;

/** inline.c: decides every let in order and puts the inlined ones into what reads them. False when memory is short. */
bool md_st_inline_lets(md_st_draft *draft);

#endif
