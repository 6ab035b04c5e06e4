"""From a raw file to batches.

raw        raw files and rows: recipes, readers, and the rules by which a row becomes inputs
prepare    raw files become a prepared folder
images     images for vision networks
synthetic  generated data of known truth

Here: what a prepared folder is (`prepared`, `schema`), and batches from it (`loader`).
"""
