"""The columns of FOCUS 1.2 as its specification lists them: name, level, type, and nulls.

Source: FinOps Open Cost and Usage Specification, version 1.2, section "Columns".
"""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """A column. `kind` is string, decimal, instant or json."""

    level: str
    kind: str
    nulls: bool


_LISTED = {
    Column("conditional", "decimal", nulls=True): """
        CommitmentDiscountQuantity ConsumedQuantity ContractedUnitPrice ListUnitPrice
        PricingCurrencyContractedUnitPrice PricingCurrencyEffectiveCost
        PricingCurrencyListUnitPrice
    """,
    Column("conditional", "json", nulls=True): """
        SkuPriceDetails Tags
    """,
    Column("conditional", "string", nulls=False): """
        BillingAccountType
    """,
    Column("conditional", "string", nulls=True): """
        CapacityReservationId CapacityReservationStatus CommitmentDiscountCategory
        CommitmentDiscountId CommitmentDiscountName CommitmentDiscountStatus
        CommitmentDiscountType CommitmentDiscountUnit ConsumedUnit PricingCategory
        PricingCurrency RegionId RegionName ResourceId ResourceName ResourceType SkuId
        SkuMeter SkuPriceId SubAccountId SubAccountName SubAccountType
    """,
    Column("mandatory", "instant", nulls=False): """
        BillingPeriodEnd BillingPeriodStart ChargePeriodEnd ChargePeriodStart
    """,
    Column("mandatory", "decimal", nulls=False): """
        BilledCost ContractedCost EffectiveCost ListCost
    """,
    Column("mandatory", "decimal", nulls=True): """
        PricingQuantity
    """,
    Column("mandatory", "string", nulls=False): """
        BillingAccountId BillingCurrency ChargeCategory InvoiceIssuerName ProviderName
        PublisherName ServiceCategory ServiceName
    """,
    Column("mandatory", "string", nulls=True): """
        BillingAccountName ChargeClass ChargeDescription PricingUnit
    """,
    Column("recommended", "string", nulls=False): """
        ChargeFrequency ServiceSubcategory
    """,
    Column("recommended", "string", nulls=True): """
        AvailabilityZone InvoiceId
    """,
}
#: Every column by its name.
COLUMNS = {name: column for column, names in _LISTED.items() for name in names.split()}
#: The values that columns may have, of those that say so; null beside them where they may be null.
VALUES = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"Correction"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other"},
    "ServiceCategory": {
        "AI and Machine Learning", "Analytics", "Business Applications", "Compute", "Databases",
        "Developer Tools", "Multicloud", "Identity", "Integration", "Internet of Things",
        "Management and Governance", "Media", "Migration", "Mobile", "Networking", "Security",
        "Storage", "Web", "Other",
    },
    # Those of the one category that is written here.
    "ServiceSubcategory": {
        "AI Platforms", "Bots", "Generative AI", "Machine Learning",
        "Natural Language Processing", "Other (AI and Machine Learning)",
    },
}  # fmt: skip
