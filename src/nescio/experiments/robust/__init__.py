"""Parts of the lecture on robust deep learning."""
