/* Reports of lengths, for kernels of chains and of pairs. A part of both, after md_expr.h. */
#ifndef MD_CUDA_CHAIN_CHECK_H
#define MD_CUDA_CHAIN_CHECK_H

/* Reports lengths above the number of keys, of rows row .. end - 1 of a batch: every step-th from row + `first` on. */
MD_INLINE void md_check_rows(const md_params *p, const md_chain_batch *b, int row, int end, int first, int step)
{
#if MD_CHAIN_LENGTHS
    MD_ROLLED for (int i = row + first; i < (MD_CHAIN_LENGTHS == 1 ? row + 1 : end); i += step)
    {
        const md_chain_row r = md_chain_row_of(p, b, i);
        md_chain_check_lengths(p, &r);
    }
#endif
}

/* The same of all rows of every step-th batch. */
MD_INLINE void md_check_batches(const md_params *p, int first, int step)
{
#if MD_CHAIN_LENGTHS
    const int rows = MD_CHAIN_LENGTHS == 1 ? 1 : (int)md_chain_rows(p);
    MD_ROLLED for (long long i = first; i < md_chain_batches(p) * rows; i += step)
    {
        const md_chain_batch b = md_chain_batch_of(p, i / rows);
        md_check_rows(p, &b, (int)(i % rows), (int)(i % rows) + 1, 0, 1);
    }
#endif
}

#endif
