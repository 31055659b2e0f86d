"""Cost models: what a join needs, how it splits its memory, and how fast it will be. One file a family of joins.

Symbols are the papers': M memory, R_t rows of R, v_R and v_S bytes of a row and of a waiting sale, h_S sales waiting,
h_R rows cached, w sales an iteration, b or d rows read at once, c_* seconds, e Zipf's exponent, mu sales a second.
"""
