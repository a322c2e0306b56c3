"""The operator console: Django admin with lists, acts and pages of our own.

This package knows no job and no agent.  Apps register what they have: admins (`OperatorAdmin`),
acts (`Act`), sections of the overview, kinds of the inbox, banners.
"""
