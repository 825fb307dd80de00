/* Sums over several indices of a product of several tensors, factored by cost: sum[j,k](A[i,j]*B[j,k]*v[k]) as
 * sum[j](A[i,j]*sum[k](B[j,k]*v[k])). */
#ifndef MD_STAGE_CONTRACT_H
#define MD_STAGE_CONTRACT_H

#include "stage/form.h"
#include "stage/order.h"

/* A sum in its order. Letters of the network are indices of the formula. */
struct md_st_order {
    int32_t tensor; /* of the statement that the sum stands in */
    int32_t bound; /* an index that the sum binds, by which it is known */
    const char *text; /* "A[i,j] * (B[j,k] * v[k])" */
    bool is_written; /* the sum stays as it was written */
    md_st_network network; /* its sizes are those by which the order was chosen */
    md_st_path path;
    int32_t dim[MD_ST_MAX_LETTERS]; /* of each letter */
    md_st_levels levels;
};

/** Rewrites the sums of a statement. `kind_of` says which stage a sum would be as it is written. */
typedef struct md_st_contractor {
    md_st_maker *maker;
    md_fx_formula *formula;
    const md_st_sizes *sizes;
    md_st_orders *orders;
    md_st_kind (*kind_of)(void *user, const md_fx_stmt *stmt, const md_fx_node *sum);
    void *user;
} md_st_contractor;
/** False when memory is short. */
bool md_st_contract(const md_st_contractor *contractor, md_fx_stmt *stmt);

#endif
