"""Logs and policies from elsewhere: tables, files, Minari data sets and Gymnasium environments."""
