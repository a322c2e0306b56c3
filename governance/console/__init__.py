"""The operator console: Django admin with lists, confirmations and pages of our own.

This package knows no job and no agent.  Apps register what they have: admins (`OperatorAdmin`),
verbs, links, sections of the overview, kinds of the inbox, banners.
"""
