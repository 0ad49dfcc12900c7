"""Notices to the notification targets of an app: a webhook, Slack, mail, or a function of the app."""
